import { Refusal } from "./errors.ts";
import { parseStrictJson } from "./parse-json.ts";
import { queryText } from "./query-text.ts";

/** Most texts in one parameter. */
const MAX_TEXTS = 500;

/**
 * The texts of a parameter that holds a JSON list of them (`["a","b"]`); `undefined` where it is
 * absent or empty. Throws a {@link Refusal} that names it for anything else.
 */
export function jsonTextsOf(query: unknown, name: string): readonly string[] | undefined {
  const text = queryText(query, name);
  if (!text) return undefined;
  const list = readJson(text);
  if (!Array.isArray(list) || !list.every((item) => typeof item === "string")) {
    throw new Refusal("invalid_input", "Expected a JSON list of strings.", { attr: name });
  }
  return bounded(list, name);
}

/** {@link jsonTextsOf}, or texts with commas between them. */
export function textsOf(query: unknown, name: string): readonly string[] | undefined {
  const text = queryText(query, name);
  if (!text) return undefined;
  if (text.trimStart().startsWith("[")) return jsonTextsOf(query, name);
  const texts = text.split(",").map((one) => one.trim());
  return bounded(
    texts.filter((one) => one !== ""),
    name,
  );
}

/** A parameter that is true or false; `undefined` where it is absent or empty. */
export function booleanOf(query: unknown, name: string): boolean | undefined {
  const text = queryText(query, name)?.toLowerCase();
  if (!text) return undefined;
  if (["true", "1"].includes(text)) return true;
  if (["false", "0"].includes(text)) return false;
  throw new Refusal("invalid_input", "Must be a valid boolean.", { attr: name });
}

function readJson(text: string): unknown {
  try {
    return parseStrictJson(text);
  } catch {
    return undefined;
  }
}

function bounded(texts: readonly string[], name: string): readonly string[] {
  if (texts.length <= MAX_TEXTS) return texts;
  throw new Refusal("invalid_input", `Ensure this list has no more than ${MAX_TEXTS} items.`, {
    attr: name,
  });
}
