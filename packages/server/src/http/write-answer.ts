import buildSerializer from "fast-json-stringify";
import type { FastifySerializerCompiler } from "fastify";
import { compileWhenUsed } from "./compile-when-used.ts";

/** Writes answers as JSON by the schemas of their routes; compiled with the first answer. */
export const serializerCompiler: FastifySerializerCompiler<object> = ({ schema }) => {
  const serializer = compileWhenUsed(() => buildSerializer(schema));
  return (answer) => serializer()(answer);
};
