import { isJsonObject, type Json } from "../json.ts";

/** Text escapes that may produce a character which stores refuse. */
const SUSPECT_ESCAPE = /\\u(?:0000|[dD][89a-fA-F])/;

/**
 * Text with NUL characters and lone surrogates, which are no characters and which no UTF-8 can hold,
 * replaced by U+FFFD, as PostHog stores it (posthog-api 9.6).
 */
export function cleanText(text: string): string {
  return isClean(text) ? text : text.replaceAll("\0", "\uFFFD").toWellFormed();
}

/** Longer texts are left to the engine, which then is quicker. */
const MAX_LOOKED_THROUGH = 100;

/** True for short texts, names and ids nearly always, in which nothing has to be replaced. */
function isClean(text: string): boolean {
  if (text.length > MAX_LOOKED_THROUGH) return false;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0 || (code >= 0xd800 && code <= 0xdfff)) return false;
  }
  return true;
}

/** True when a JSON text may hold characters that {@link cleanJson} replaces; cheap. */
export function mayNeedCleaning(jsonText: string): boolean {
  // Most texts have no such escape at all, which is told ten times as fast.
  return jsonText.includes("\\u") && SUSPECT_ESCAPE.test(jsonText);
}

/**
 * The value with every string and key cleaned by {@link cleanText} and numbers that JSON cannot
 * hold (NaN, infinities) as `null`. Keys stay own keys, whatever they are called. Nesting must have
 * been bounded before.
 */
export function cleanJson(value: unknown): Json {
  if (typeof value === "string") return cleanText(value);
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (Array.isArray(value)) return value.map(cleanJson);
  if (isJsonObject(value)) {
    return Object.fromEntries(
      Object.entries(value).map(([key, member]) => [cleanText(key), cleanJson(member)]),
    );
  }
  return typeof value === "boolean" || typeof value === "bigint" ? value : null;
}
