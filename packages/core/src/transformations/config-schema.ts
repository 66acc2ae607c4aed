import { encodeJson } from "../exact-json.ts";
import { isJsonObject, type Json, type JsonObject, ownValue } from "../json.ts";

/** One setting of a transformation, as `plugin.json` declares it (posthog-api 6.8). */
export interface ConfigField {
  readonly key: string;
  /** For people; the key where none is declared. */
  readonly name: string;
  /** `string`, `json`, `attachment`, `choice`; others are known to the plugin alone. */
  readonly type: string;
  readonly choices: readonly string[];
  readonly default: Json | undefined;
  readonly required: boolean;
  readonly secret: boolean;
  /** Each names a field and, but where any value will do, the value it has to have. */
  readonly requiredIf: readonly FieldCondition[] | null;
  readonly visibleIf: readonly FieldCondition[] | null;
}

/** A condition on another field; without `value`: that it has one which is not empty. */
export interface FieldCondition {
  readonly key: string;
  readonly value?: Json;
}

/** Why a setting cannot be taken. */
export interface ConfigFault {
  readonly key: string;
  readonly kind: "required" | "invalid" | "choice";
  readonly message: string;
}

/**
 * The settings that a schema declares, in its order. Takes a list of fields or the older object of
 * fields by key; items without a key are text between fields. What is malformed is left out: schemas
 * come from strangers.
 */
export function configFieldsOf(schema: Json): readonly ConfigField[] {
  const items = isJsonObject(schema)
    ? Object.entries(schema).flatMap(([key, item]) =>
        isJsonObject(item) ? [[key, item] as const] : [],
      )
    : Array.isArray(schema)
      ? (schema as readonly Json[]).flatMap((item) => {
          const key = isJsonObject(item) ? ownValue(item, "key") : undefined;
          return isJsonObject(item) && typeof key === "string" && key !== ""
            ? [[key, item] as const]
            : [];
        })
      : [];
  return items.map(([key, item]) => readField(key, item));
}

function readField(key: string, item: JsonObject): ConfigField {
  const text = (name: string): string | undefined => {
    const value = ownValue(item, name);
    return typeof value === "string" && value !== "" ? value : undefined;
  };
  const choices = ownValue(item, "choices");
  return {
    key,
    name: text("name") ?? key,
    type: text("type") ?? "string",
    choices: Array.isArray(choices) ? choices.flatMap((one) => choiceOf(one) ?? []) : [],
    default: ownValue(item, "default"),
    required: isSet(item, "required"),
    secret: isSet(item, "secret"),
    requiredIf: readConditions(ownValue(item, "required_if")),
    visibleIf: readConditions(ownValue(item, "visible_if")),
  };
}

/** Whether a field is marked so, be it by a text or a number: PostHog's forms ask no more. */
export function isSet(field: JsonObject, mark: "required" | "secret"): boolean {
  return Boolean(ownValue(field, mark));
}

/** What can be chosen, as text: forms write numbers and truth values so. */
function choiceOf(value: Json | undefined): string | undefined {
  return typeof value === "object" || value === undefined ? undefined : String(value);
}

/** `null` where there are none, or one of them is malformed: what is left would mean something else. */
function readConditions(value: Json | undefined): readonly FieldCondition[] | null {
  if (!Array.isArray(value) || value.length === 0) return null;
  const conditions = (value as readonly Json[]).map(readCondition);
  return conditions.every((condition) => condition !== undefined) ? conditions : null;
}

function readCondition(item: Json): FieldCondition | undefined {
  if (!Array.isArray(item)) return undefined;
  const [key, wanted] = item as readonly (Json | undefined)[];
  if (typeof key !== "string") return undefined;
  return wanted === undefined ? { key } : { key, value: wanted };
}

/** Settings with the declared default of every one that was left out. */
export function withDefaults(config: JsonObject, fields: readonly ConfigField[]): JsonObject {
  const missing = fields.flatMap(({ key, default: value }) =>
    value === undefined || isGiven(ownValue(config, key)) ? [] : [[key, value] as const],
  );
  return missing.length === 0
    ? config
    : Object.fromEntries([...Object.entries(config), ...missing]);
}

/**
 * What is wrong with settings, in the order of the fields. A required setting has to be there, be it
 * an empty text, unless its field is hidden by `visible_if` or it has a default; fields that nothing
 * declares are left alone.
 * @param attachments keys of the attachments that the settings come with
 * @param tellable keys of the settings whose values messages may show: others may be secrets
 */
export function validateConfig(
  config: JsonObject,
  fields: readonly ConfigField[],
  attachments: ReadonlySet<string> = new Set(),
  tellable: ReadonlySet<string> = new Set(),
): readonly ConfigFault[] {
  const complete = withDefaults(config, fields);
  return fields.flatMap((field) => {
    const isFile = field.type === "attachment";
    const isThere = isFile && attachments.has(field.key);
    const value = isFile ? undefined : ownValue(complete, field.key);
    if (!isThere && !isGiven(value)) {
      return isRequired(field, complete)
        ? [{ key: field.key, kind: "required" as const, message: "This field is required." }]
        : [];
    }
    const fault = isGiven(value) ? faultOf(field, value, tellable) : undefined;
    return fault ? [{ key: field.key, ...fault }] : [];
  });
}

function isGiven(value: Json | undefined): value is NonNullable<Json> {
  return value !== undefined && value !== null;
}

/** Whether a setting has to be given beside the others. */
function isRequired(field: ConfigField, config: JsonObject): boolean {
  if (field.visibleIf && !meetsAll(field.visibleIf, config)) return false;
  if (field.required) return true;
  return field.requiredIf !== null && meetsAll(field.requiredIf, config);
}

/** As PostHog's form decides: absent and empty are equal, and a condition without a value wants any. */
function meetsAll(conditions: readonly FieldCondition[], config: JsonObject): boolean {
  return conditions.every(({ key, value }) => {
    const actual = ownValue(config, key) || "";
    return value === undefined ? actual !== "" : (value ?? "") === actual;
  });
}

function faultOf(
  field: ConfigField,
  value: Json,
  tellable: ReadonlySet<string>,
): Omit<ConfigFault, "key"> | undefined {
  switch (field.type) {
    case "string":
      return typeof value === "object"
        ? { kind: "invalid", message: "Not a valid string." }
        : undefined;
    case "choice":
      return value === "" || isAmong(field.choices, value)
        ? undefined
        : {
            kind: "choice",
            message: choiceText(field, tellable.has(field.key) ? value : undefined),
          };
    case "json":
      return typeof value === "string" && value !== "" && !isJsonText(value)
        ? { kind: "invalid", message: "Value must be valid JSON." }
        : undefined;
    default:
      return undefined;
  }
}

/** Where there is nothing to choose from, nothing is ruled out. */
function isAmong(choices: readonly string[], value: Json): boolean {
  return choices.length === 0 || choices.some((choice) => choice === choiceOf(value));
}

function textOf(value: Json): string {
  const choice = choiceOf(value);
  if (choice !== undefined) return `"${choice}"`;
  return encodeJson(value);
}

function choiceText({ choices }: ConfigField, value: Json | undefined): string {
  const subject = value === undefined ? "This" : textOf(value);
  return `${subject} is not a valid choice. Possible is ${choices.join(", ")}.`;
}

/** Whether a text can be parsed as JSON. */
export function isJsonText(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
