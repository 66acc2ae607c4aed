import { type TSchema, Type } from "typebox";

/** Schema of what may be `null` instead. */
export const Nullable = <Schema extends TSchema>(schema: Schema) =>
  Type.Union([schema, Type.Null()]);

/** Schema of an object of any fields. */
export const AnyObject = Type.Record(Type.String(), Type.Unknown());
