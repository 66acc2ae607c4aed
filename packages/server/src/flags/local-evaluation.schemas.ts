import { Type } from "typebox";
export const LocalDefinitionsAnswer = Type.Object({});
export const LocalDefinitionsParameters = Type.Object({});
export const wireLocalDefinitions = (..._a: any[]) => ({});
