import { encodeJson } from "@hedgerow/core/exact-json";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { type EventChange, hasKeys, put } from "@hedgerow/core/transformations/plugin-event";
import type { GivenEvent, SandboxEvent, TextOutcome } from "../../transformations/sandbox.ts";
import { ADDED, type TextChange } from "./sandbox-messages.ts";

/** Without them, no integer of a text can be one that no number holds. */
const MANY_DIGITS = /\d{16}/;

/** Reads what a thread tells of an event (`ThreadOutcome`). */
export type OutcomeReader = (
  given: GivenEvent,
  text: string,
  isLimit: boolean,
  cpuMs: number,
) => TextOutcome;

/** Texts that are no longer are likely to come again. */
const MAX_KNOWN_LENGTH = 300;
const MAX_KNOWN = 500;

/** A reader that knows the last changes which add the same to many events: each is read once. */
export function createOutcomeReader(): OutcomeReader {
  const known = new Map<string, EventChange | undefined>();

  /** What is nothing but properties behind all others. */
  function readAddition(text: string): EventChange | undefined {
    if (known.has(text)) return known.get(text);
    const told = text.slice(1, -ADDED_END.length);
    const { p: set = {} } = readTextChange(told);
    const change: EventChange | undefined = hasKeys(set)
      ? {
          ...{ kind: "parts", fields: {}, removedFields: [], set, removed: [] },
          addedText: told.slice(ONLY_SET.length, -1),
        }
      : undefined;
    if (text.length <= MAX_KNOWN_LENGTH) {
      if (known.size >= MAX_KNOWN) known.clear();
      known.set(text, change);
    }
    return change;
  }

  return (given, text, isLimit, cpuMs) => {
    switch (text[0]) {
      case "=":
        return { kind: "keep", cpuMs };
      case "-":
        return { kind: "drop", cpuMs };
      case "?":
        return { kind: "not-run" };
      case "+": {
        const { event: before, line } = given;
        const whole = JSON.parse(text.slice(1)) as JsonObject;
        const mayLack = MANY_DIGITS.test(line);
        const event = mayLack ? (restoreIntegers(before, whole) as JsonObject) : whole;
        // Where digits were lost on the way alone, nothing was changed.
        if (mayLack && encodeJson(event) === line) return { kind: "keep", cpuMs };
        return { kind: "keep", change: { kind: "whole", event }, cpuMs };
      }
      case "~": {
        const change = text.endsWith(ADDED_END) ? readAddition(text) : readParts(given.event, text);
        return change === undefined ? { kind: "keep", cpuMs } : { kind: "keep", change, cpuMs };
      }
      default:
        return { kind: "failed", reason: String(JSON.parse(text.slice(1))), isLimit, cpuMs };
    }
  };
}

function readParts(before: SandboxEvent, text: string): EventChange | undefined {
  const end = text.indexOf("\n");
  return partsOf(before, readTextChange(text.slice(1, end)), text.slice(end + 1));
}

function readTextChange(text: string): TextChange {
  const change = JSON.parse(text) as TextChange;
  if (!isTextChange(change)) throw new TypeError("it is no change");
  return change;
}

/** How a change ends that is nothing but properties that were set behind all others; and begins. */
const ADDED_END = `\n${ADDED}`;
const ONLY_SET = '{"p":';

function isTextChange({ e = {}, f = [], p = {}, q = [] }: TextChange): boolean {
  const areKeys = (keys: Json) =>
    Array.isArray(keys) && keys.every((key) => typeof key === "string");
  return isJsonObject(e) && areKeys(f) && isJsonObject(p) && areKeys(q);
}

function partsOf(
  before: SandboxEvent,
  { e = {}, f = [], p = {}, q = [], w }: TextChange,
  propertiesText: string,
): EventChange | undefined {
  const restored = { count: 0 };
  const restore = (whole: JsonObject | undefined, part: Record<string, Json>): JsonObject => {
    for (const key of Object.keys(part)) {
      const value = ownValue(whole ?? {}, key);
      if (value === undefined) continue;
      const { count } = restored;
      const after = restoreIntegers(value, part[key] as Json, restored);
      if (restored.count > count && encodeJson(after) === encodeJson(value)) delete part[key];
      else put(part, key, after);
    }
    return part;
  };
  const fields = { fields: restore(before, e), removedFields: f };
  const properties = ownValue(before, "properties");
  const earlier = isJsonObject(properties) ? properties : {};
  restored.count = 0;
  // Where digits were lost on the way alone, nothing was changed.
  if (w !== undefined) {
    const after = restoreIntegers(earlier, w, restored);
    if (restored.count === 0 || encodeJson(after) !== encodeJson(earlier)) {
      return { kind: "properties", ...fields, properties: after };
    }
    restored.count = 0;
  }
  const set = restore(earlier, p);
  const isChanged = [fields.fields, set].some(hasKeys) || f.length > 0 || q.length > 0;
  if (!isChanged) return undefined;
  // The text has the digits that came out of the sandbox.
  const isTextRight = propertiesText !== "" && restored.count === 0;
  return { kind: "parts", ...fields, set, removed: q, ...(isTextRight && { propertiesText }) };
}

/** Integers that lost digits on their way through the sandbox, where they were not changed there. */
function restoreIntegers(
  before: Json | undefined,
  after: Json,
  restored: { count: number } = { count: 0 },
): Json {
  if (typeof before === "bigint") {
    const number = Number(before);
    // What is beyond all numbers is infinite in the sandbox, which JSON has as `null`.
    if (after !== (Number.isFinite(number) ? number : null)) return after;
    restored.count += 1;
    return before;
  }
  if (Array.isArray(after)) {
    const known = Array.isArray(before) ? (before as readonly Json[]) : [];
    return after.map((item, index) => restoreIntegers(known[index], item, restored));
  }
  if (!isJsonObject(after) || !isJsonObject(before)) return after;
  for (const key of Object.keys(after)) {
    put(after, key, restoreIntegers(ownValue(before, key), after[key] as Json, restored));
  }
  return after;
}
