import { type Static, type TSchema, type TSchemaOptions, Type } from "typebox";

/** Schema of what may be `null` instead. */
export const Nullable = <Schema extends TSchema>(schema: Schema, options: TSchemaOptions = {}) =>
  Type.Union([schema, Type.Null()], options);

/**
 * Schema of an object with fields of one kind under any names. Not `Type.Record`: that takes names by
 * a pattern which those with line breaks do not match.
 */
export const MapOf = <Schema extends TSchema>(schema: Schema, options: TSchemaOptions = {}) =>
  Type.Unsafe<Record<string, Static<Schema>>>({
    type: "object",
    ...options,
    additionalProperties: schema,
  });

/** How the schema of a field of a body tells how many characters it may have, see {@link maxChars}. */
export const MAX_CHARS = "x-max-characters";

/** Option of the schema of a field of a body that is longer, as JSON, than fields mostly are. */
export const maxChars = (chars: number) => ({ [MAX_CHARS]: chars });

/** Schema of an object of any fields. */
export const AnyObject = MapOf(Type.Unknown());
