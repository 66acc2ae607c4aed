import { keysOf, ROOT, stringify } from "./intrinsics.ts";
import {
  find,
  GONE,
  INNER,
  INNER_OBJECT,
  INNER_SHAPE,
  IS_SETTLED,
  type LazyObject,
  LINE,
  PLACES,
  type Plain,
  put,
  SELF,
  SHAPE,
  startOf,
  TOUCHED,
  textOfPlace,
} from "./lazy-event.ts";

/** Whether something writes its JSON itself, which a lazy object does not. */
function writesItself(lazy: LazyObject): boolean {
  if (!lazy[IS_SETTLED] && !lazy[SHAPE].isOdd && ROOT["toJSON"] === undefined) {
    if (find(lazy[TOUCHED], "toJSON") < 0) return false;
  }
  return typeof lazy[SELF]?.["toJSON"] === "function";
}

/**
 * How an answer differs from the event that was given, as JSON of `{e, f, h, p, q, w}`: fields of the
 * event that were set and removed, or all of them (`h`); properties that were set and removed, or all
 * of them (`w`). `=` where it does not differ, `+` and the JSON of the answer where it is another
 * object altogether. Throws what writing it throws.
 */
export function writeAnswer(answer: Plain, given: LazyObject): string {
  const inner = given[INNER_OBJECT];
  const innerSelf = inner === null ? null : inner[SELF];
  let parts = "";
  if (answer === given[SELF] && !given[IS_SETTLED]) {
    if (writesItself(given)) return `+${writeWhole(answer)}`;
    const touched = given[TOUCHED];
    if (touched !== null) {
      const at = find(touched, INNER);
      const isReplaced = at >= 0 && (innerSelf === null || touched[at + 1] !== innerSelf);
      if (isReplaced && (inner !== null || given[INNER_SHAPE] !== null)) {
        return `+${writeWhole(answer)}`;
      }
      parts = writeChanges(given, '"e":{', '"f":[');
    }
  } else {
    const isOther = innerSelf === null || answer[INNER] !== innerSelf;
    if (isOther || typeof answer["toJSON"] === "function") return `+${writeWhole(answer)}`;
    const rest: Plain = {};
    const keys = keysOf(answer);
    for (let at = 0; at < keys.length; at += 1) {
      const key = keys[at] as string;
      if (key !== INNER) put(rest, key, answer[key]);
    }
    parts = `"h":${stringify(rest)}`;
  }
  if (inner !== null && innerSelf !== null) {
    let text = "";
    if (inner[IS_SETTLED] || writesItself(inner)) {
      const whole = stringify(innerSelf);
      if (whole === undefined) return `+${writeWhole(answer)}`;
      text = `"w":${whole}`;
    } else if (inner[TOUCHED] !== null) text = writeChanges(inner, '"p":{', '"q":[');
    if (text !== "") parts = parts === "" ? text : `${parts},${text}`;
  }
  return parts === "" ? "=" : `~{${parts}}`;
}

/** An answer as JSON; throws where it has none, since its `toJSON` answers nothing. */
export function writeWhole(answer: Plain): string {
  const text = stringify(answer) as string | undefined;
  if (text === undefined) throw new TypeError("processEvent answered what has no JSON");
  return text;
}

/** What was touched and differs, as JSON without the outer brackets. */
function writeChanges(lazy: LazyObject, set: string, gone: string): string {
  const touched = lazy[TOUCHED];
  if (touched === null) return "";
  let setTexts = "";
  let goneTexts = "";
  for (let at = 0; at < touched.length; at += 2) {
    const key = touched[at] as string;
    if (lazy[INNER_OBJECT] !== null && key === INNER) continue;
    const value = touched[at + 1];
    const place = lazy[PLACES][key];
    const text = value === GONE ? undefined : textOf(value);
    if (text === undefined) {
      if (place === undefined) continue;
      goneTexts = goneTexts === "" ? stringify(key) : `${goneTexts},${stringify(key)}`;
    } else if (place === undefined || text !== textOfPlace(lazy, place)) {
      const name = place === undefined ? keyText(key) : literalOf(lazy, place);
      setTexts = setTexts === "" ? name + text : `${setTexts},${name}${text}`;
    }
  }
  const sets = setTexts === "" ? "" : `${set}${setTexts}}`;
  if (goneTexts === "") return sets;
  return sets === "" ? `${gone}${goneTexts}]` : `${sets},${gone}${goneTexts}]`;
}

/** As JSON, which costs more to ask for. */
function textOf(value: unknown): string | undefined {
  if (value === true || value === false) return value ? "true" : "false";
  if (typeof value === "number" && value - value === 0) return `${value}`;
  return stringify(value);
}

/** The key of a value as it stands in the text, with its colon. */
function literalOf(lazy: LazyObject, place: number): string {
  const end = startOf(lazy, place);
  return lazy[LINE].substring(end - (lazy[SHAPE].lengths[place / 2] as number), end);
}

/** Keys that were added, as JSON with a colon: transformations add the same ones again and again. */
const keyTexts = { __proto__: null } as unknown as Record<string, string>;
const MAX_KEY_TEXTS = 200;
let keyTextCount = 0;

function keyText(key: string): string {
  const known = keyTexts[key];
  if (known !== undefined) return known;
  const text = `${stringify(key)}:`;
  if (keyTextCount < MAX_KEY_TEXTS) {
    keyTextCount += 1;
    keyTexts[key] = text;
  }
  return text;
}
