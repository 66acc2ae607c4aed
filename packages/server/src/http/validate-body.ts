import { Ajv, type ErrorObject } from "ajv";
import type { FastifySchemaCompiler } from "fastify";
import { compileWhenUsed } from "./compile-when-used.ts";
import { Refusal, type RefusalCode } from "./errors.ts";
import { invalidChoiceText } from "./invalid-choice.ts";

/**
 * Bodies are validated against their schemas; the first fault, in the order in which the schema
 * declares its fields, becomes a refusal with the code and text of posthog-api 0.1. Nothing is
 * coerced and unknown fields are left alone. Query strings are read leniently by their routes.
 * Compiled with the first body.
 */
export const validatorCompiler: FastifySchemaCompiler<object> = ({ schema, httpPart }) => {
  if (httpPart !== "body") return (value) => ({ value });
  const validator = compileWhenUsed(() =>
    new Ajv({
      allErrors: true,
      strict: false,
      verbose: true,
      validateFormats: false,
      // The types of our schemas are checked by the compiler; checking them again costs time.
      meta: false,
      validateSchema: false,
    }).compile(schema),
  );
  return (value) => {
    const validate = validator();
    if (validate(value)) return { value };
    return { error: refuseFirst(validate.errors ?? [], schema, value) };
  };
};

function refuseFirst(errors: readonly ErrorObject[], schema: object, value: unknown): Refusal {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return new Refusal(
      "invalid_input",
      `Invalid data. Expected a dictionary, but got ${pythonType(value)}.`,
    );
  }
  const order = Object.keys((schema as { properties?: object }).properties ?? {});
  const place = (error: ErrorObject) => order.indexOf(pathOf(error)[0] ?? "");
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
    .toSorted((a, b) => place(a) - place(b) || a.instancePath.length - b.instancePath.length);
  if (!first) return new Refusal("invalid_input", "Invalid input.");
  const attr = pathOf(first).join("__") || null;
  const [code, detail] = describe(first);
  return new Refusal(code, detail, { attr });
}

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
      return ["required", "This field is required."];
    case "minLength":
      return ["blank", "This field may not be blank."];
    case "maxLength":
      return ["max_length", `Ensure this field has no more than ${error.params.limit} characters.`];
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
