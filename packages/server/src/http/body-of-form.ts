import { cleanText } from "@hedgerow/core/events/clean-json";
import type { Json, JsonObject } from "@hedgerow/core/json";
import type { JsonReader } from "./read-json-in-turn.ts";

/** What is read of a JSON Schema here. */
interface FieldSchema {
  readonly type?: string | readonly string[];
  readonly anyOf?: readonly FieldSchema[];
}

/**
 * The body that the fields of a form stand for, by the schema of the body: texts are read as the
 * booleans, numbers, lists and objects (as JSON) that are asked for. What cannot be read so stays
 * the text that it is, for validation to refuse. Unknown fields are texts.
 * @param schema JSON Schema of an object, or nothing that is known
 * @param reader whose refusals it rejects with
 */
export async function bodyOfForm(
  fields: ReadonlyMap<string, Buffer>,
  schema: unknown,
  reader: JsonReader,
): Promise<JsonObject> {
  const { properties = {} } = (schema ?? {}) as { properties?: Record<string, FieldSchema> };
  const members: [string, Json][] = [];
  for (const [name, bytes] of fields) {
    const text = cleanText(bytes.toString("utf8"));
    const field = Object.hasOwn(properties, name) ? properties[name] : undefined;
    members.push([name, field ? await readField(text, field, reader) : text]);
  }
  return Object.fromEntries(members);
}

const TRUE = /^\s*(?:true|1|on|yes)\s*$/i;
const FALSE = /^\s*(?:false|0|off|no)\s*$/i;
const NUMBER = /^\s*-?\d{1,15}(?:\.\d{1,15})?\s*$/;

async function readField(text: string, schema: FieldSchema, reader: JsonReader): Promise<Json> {
  const types = typesOf(schema);
  if (types.has("boolean") && (TRUE.test(text) || FALSE.test(text))) return TRUE.test(text);
  if ((types.has("integer") || types.has("number")) && NUMBER.test(text)) return Number(text);
  if (types.has("null") && text === "" && !types.has("string")) return null;
  // A field of no type may be anything.
  const mayNest = types.size === 0 || types.has("object") || types.has("array");
  if (mayNest && /^\s*[[{]/.test(text)) {
    try {
      return await reader.ofText(text);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      return text;
    }
  }
  return text;
}

/** Names of the types that a value may have; choices of texts have none. */
function typesOf({ type = [], anyOf = [] }: FieldSchema): ReadonlySet<string> {
  return new Set([...[type].flat(), ...anyOf.flatMap((branch) => [...typesOf(branch)])]);
}
