import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { Ajv, type ErrorObject } from "ajv";
import type { FastifySchemaCompiler } from "fastify";
import { compileWhenUsed } from "./compile-when-used.ts";
import { Refusal, type RefusalCode } from "./errors.ts";
import { invalidChoiceText } from "./invalid-choice.ts";
import { MAX_CHARS } from "./wire-schemas.ts";

/** Most characters of a field where its schema names no other number. */
const MAX_FIELD_CHARS = 100_000;

/** What is read here of the schema of a body. */
interface BodySchema {
  readonly properties?: Readonly<Record<string, { readonly [MAX_CHARS]?: number }>>;
  readonly required?: readonly string[];
}

/**
 * Bodies are validated against their schemas; the first fault, in the order in which the schema
 * declares its fields, becomes a refusal with the code and text of posthog-api 0.1. Nothing is
 * coerced and unknown fields are left alone. Nothing is looked at behind the first fault: a list may
 * hold a hundred thousand. Query strings are read leniently by their routes. Compiled with the first
 * body.
 */
export const validatorCompiler: FastifySchemaCompiler<object> = ({ schema, httpPart }) => {
  if (httpPart !== "body") return (value) => ({ value });
  // Fields that have to be there are looked for in the order of all fields, and not before them.
  const { required = [], ...ofFields } = schema as BodySchema;
  const validator = compileWhenUsed(() =>
    new Ajv({
      strict: false,
      verbose: true,
      validateFormats: false,
      // The types of our schemas are checked by the compiler; checking them again costs time.
      meta: false,
      validateSchema: false,
    }).compile(ofFields),
  );
  return (value) => {
    const validate = validator();
    const errors = validate(value) ? [] : (validate.errors ?? []);
    const missing = isJsonObject(value) && required.find((name) => !Object.hasOwn(value, name));
    if (errors.length > 0 || missing) {
      return { error: refuseFirst(errors, missing || undefined, schema, value) };
    }
    const longField = findTooLong(value as JsonObject, schema);
    return longField ? { error: longField } : { value };
  };
};

/** @param missing a field that has to be there */
function refuseFirst(
  errors: readonly ErrorObject[],
  missing: string | undefined,
  schema: BodySchema,
  value: unknown,
): Refusal {
  if (!isJsonObject(value)) {
    return new Refusal(
      "invalid_input",
      `Invalid data. Expected a dictionary, but got ${pythonType(value)}.`,
    );
  }
  const order = Object.keys(schema.properties ?? {});
  const isFirst = (name: string) =>
    errors.every((error) => order.indexOf(name) < order.indexOf(pathOf(error)[0] ?? ""));
  if (missing !== undefined && isFirst(missing)) {
    return new Refusal("required", REQUIRED, { attr: missing });
  }
  // Where `null` would do as well, what else would do tells more.
  const telling = errors.filter(
    ({ keyword, params }) => keyword !== "type" || params.type !== "null",
  );
  // A choice failed because of what is inside, which is named itself.
  const goesInto = (path: string) =>
    telling.some(({ instancePath }) => instancePath.startsWith(`${path}/`));
  const [first] = (telling.length > 0 ? telling : errors)
    .filter(
      ({ keyword, instancePath: path }) => keyword !== "anyOf" || (path !== "" && !goesInto(path)),
    )
    .toSorted((a, b) => a.instancePath.length - b.instancePath.length);
  if (!first) return new Refusal("invalid_input", "Invalid input.");
  const attr = pathOf(first).join("__") || null;
  const [code, detail] = describe(first);
  return new Refusal(code, detail, { attr });
}

/** Refuses the first field that is too long. */
function findTooLong(body: JsonObject, { properties = {} }: BodySchema): Refusal | undefined {
  for (const [name, schema] of Object.entries(properties)) {
    const value = ownValue(body, name);
    if (value === undefined) continue;
    const most = schema[MAX_CHARS] ?? MAX_FIELD_CHARS;
    if (charsOf(value) <= most) continue;
    return new Refusal("max_length", maxLengthText(most), { attr: name });
  }
  return undefined;
}

/** What a value counts besides its own text and name, for what is around them in JSON and in memory. */
const VALUE_CHARS = 4;

/** Characters of a value, about as many as its JSON has. */
function charsOf(value: Json): number {
  if (typeof value === "string") return VALUE_CHARS + value.length;
  if (typeof value !== "object" || value === null) return VALUE_CHARS;
  let chars = VALUE_CHARS;
  if (Array.isArray(value)) for (const item of value as readonly Json[]) chars += charsOf(item);
  else
    for (const name of Object.keys(value))
      chars += name.length + charsOf((value as JsonObject)[name] as Json);
  return chars;
}

const maxLengthText = (chars: number) => `Ensure this field has no more than ${chars} characters.`;
const REQUIRED = "This field is required.";

function pathOf(error: ErrorObject): string[] {
  const path = error.instancePath
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  return error.keyword === "required" ? [...path, error.params.missingProperty as string] : path;
}

function describe(error: ErrorObject): [RefusalCode, string] {
  if (error.data === null && error.keyword !== "required") {
    return ["null", "This field may not be null."];
  }
  switch (error.keyword) {
    case "required":
      return ["required", REQUIRED];
    case "minLength":
      return ["blank", "This field may not be blank."];
    case "maxLength":
      return ["max_length", maxLengthText(error.params.limit)];
    case "enum":
    case "const":
      return ["invalid_choice", invalidChoiceText(String(error.data), choicesOf(error))];
    case "minimum":
      return [
        "invalid_input",
        `Ensure this value is greater than or equal to ${error.params.limit}.`,
      ];
    case "maximum":
      return ["invalid_input", `Ensure this value is less than or equal to ${error.params.limit}.`];
    case "type":
    case "anyOf":
      return ["invalid_input", typeText(expectedTypes(error), error.data)];
    default:
      return ["invalid_input", `Invalid value: ${error.message ?? error.keyword}.`];
  }
}

function choicesOf({ params }: ErrorObject): readonly string[] {
  const choices = (params.allowedValues ?? [params.allowedValue]) as readonly unknown[];
  return choices.map(String);
}

function expectedTypes(error: ErrorObject): readonly string[] {
  if (error.keyword === "type") return [error.params.type as string].flat();
  const branches = (error.schema ?? []) as readonly { type?: string; const?: unknown }[];
  return branches
    .map((branch) => branch.type ?? typeof branch.const)
    .filter((type) => type !== "null");
}

function typeText([type]: readonly string[], value: unknown): string {
  switch (type) {
    case "string":
      return "Not a valid string.";
    case "integer":
      return "A valid integer is required.";
    case "number":
      return "A valid number is required.";
    case "boolean":
      return "Must be a valid boolean.";
    case "array":
      return `Expected a list of items but got type "${pythonType(value)}".`;
    default:
      return `Expected a dictionary of items but got type "${pythonType(value)}".`;
  }
}

/** The wire names types as Python does. */
function pythonType(value: unknown): string {
  if (value === null || value === undefined) return "NoneType";
  if (Array.isArray(value)) return "list";
  switch (typeof value) {
    case "string":
      return "str";
    case "number":
      return Number.isInteger(value) ? "int" : "float";
    case "bigint":
      return "int";
    case "boolean":
      return "bool";
    default:
      return "dict";
  }
}
