import type { PluginEvent, PluginMeta } from "@posthog/plugin-scaffold";
import { createHash } from "crypto";

type Redact = (text: string) => string;

interface Global {
  redact: Redact;
  finds: (text: string) => boolean;
  isCard: (value: number) => boolean;
  names: Set<string>;
  except: Set<string>;
  replacement: string;
  hashesIds: boolean;
}

const EMAIL =
  /[a-z0-9](?:[a-z0-9._+-]{0,62}[a-z0-9_+-])?(?:@|%40)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,8}[a-z]{2,24}/gi;
const CARD = /(?<![\d.])\d(?:[ -]?\d){12,18}(?![\d.]?\d)/g;
const PHONE =
  /(?<![\w+.:/-])(?:\+\d{1,3}[ .-]?)?(?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ .-]?\d{2,4}){1,5}(?![\w:/-]|\.\d)/g;
const KEYS = [
  /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]{0,8000}?-----END [A-Z ]{0,30}PRIVATE KEY-----/g,
  /\bey[A-Za-z0-9_-]{10,2000}\.ey[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,2000}/g,
  /\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/g,
  /\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_\w{22,255})\b/g,
  /\bAIza[A-Za-z0-9_-]{35}/g,
  /\bxox[abeoprs]-[A-Za-z0-9-]{10,250}/g,
  /\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,250}/g,
  /\bphx_[A-Za-z0-9]{20,250}/g,
  /\bsk-[A-Za-z0-9_-]{20,250}/g,
  /(?<=\bbearer\s{1,4})[A-Za-z0-9._~+/-]{16,4000}=*/gi,
];
const IPV4 =
  /(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\d.]*\d)/g;
const IPV6 =
  /(?<![\w:])(?:[0-9a-f]{1,4}:){2,7}(?::?[0-9a-f]{1,4}){1,7}(?![\w:])|(?<![\w:])::(?:[0-9a-f]{1,4}:){0,6}[0-9a-f]{1,4}(?![\w:])/gi;

const KINDS: Record<string, (replacement: string) => Redact> = {
  emails: replaceAll(EMAIL),
  cards: replaceAll(CARD, (found) => passesLuhn(found.replace(/\D/g, ""))),
  phones: replaceAll(PHONE, isPhone),
  keys: (replacement) => {
    const all = KEYS.map((pattern) => replaceAll(pattern)(replacement));
    return (text) => all.reduce((rest, redact) => redact(rest), text);
  },
  addresses: (replacement) => {
    const [four, six] = [replaceAll(IPV4)(replacement), replaceAll(IPV6)(replacement)];
    return (text) => six(four(text));
  },
};
/** Longer finds first: the digits of a card could be those of a phone. */
const ORDER = ["keys", "emails", "cards", "addresses", "phones"];
const IDS = ["$anon_distinct_id", "alias", "distinct_id"];
const PERSON_PROPERTIES = ["$set", "$set_once"];
const MAX_DEPTH = 100;

export function setupPlugin({ config, global }: PluginMeta<Global>) {
  const kinds = listOf(config.kinds);
  const unknown = kinds.filter((kind) => !ORDER.includes(kind));
  if (unknown.length > 0) throw new Error(`There is no kind "${unknown[0]}".`);
  const replacement = String(config.replacement || "[redacted]");
  const steps = ORDER.filter((kind) => kinds.includes(kind)).map((kind) => KINDS[kind]);
  const redacts = steps.flatMap((make) => (make ? [make(replacement)] : []));
  global.redact = (text) => redacts.reduce((rest, redact) => redact(rest), text);
  global.finds = (text) => global.redact(text) !== text;
  global.isCard = kinds.includes("cards")
    ? (value) => Number.isSafeInteger(value) && value > 1e12 && passesLuhn(String(value))
    : () => false;
  global.names = new Set(listOf(config.names));
  global.except = new Set(listOf(config.except));
  if (config.personProperties === "no") {
    for (const name of PERSON_PROPERTIES) global.except.add(name);
  }
  global.replacement = replacement;
  global.hashesIds = config.distinctId === "replace by a hash";
}

export function processEvent(event: PluginEvent, { global }: PluginMeta<Global>) {
  const { properties = {} } = event;
  for (const [name, value] of Object.entries(properties)) {
    properties[name] = IDS.includes(name)
      ? idOf(value, global)
      : redactProperty(name, value, global, 0);
  }
  event.properties = properties;
  if (!global.except.has("$set") && event.$set) {
    event.$set = redactValue(event.$set, global, 0) as Record<string, unknown>;
  }
  if (!global.except.has("$set_once") && event.$set_once) {
    event.$set_once = redactValue(event.$set_once, global, 0) as Record<string, unknown>;
  }
  event.distinct_id = String(idOf(event.distinct_id, global));
  return event;
}

function idOf(value: unknown, { hashesIds, finds }: Global): unknown {
  if (!hashesIds || typeof value !== "string" || !finds(value)) return value;
  return `redacted-${createHash("sha256").update(value).digest("hex").slice(0, 32)}`;
}

function redactProperty(name: string, value: unknown, global: Global, depth: number): unknown {
  const key = name.toLowerCase();
  if (global.except.has(key)) return value;
  if (global.names.has(key)) return value === null ? null : global.replacement;
  return redactValue(value, global, depth);
}

function redactValue(value: unknown, global: Global, depth: number): unknown {
  if (typeof value === "string") return global.redact(value);
  if (typeof value === "number") return global.isCard(value) ? global.replacement : value;
  if (typeof value !== "object" || value === null) return value;
  if (depth === MAX_DEPTH) return global.replacement;
  if (Array.isArray(value)) return value.map((item) => redactValue(item, global, depth + 1));
  const clean: Record<string, unknown> = {};
  for (const [name, item] of Object.entries(value)) {
    clean[global.redact(name)] = redactProperty(name, item, global, depth + 1);
  }
  return clean;
}

function replaceAll(pattern: RegExp, isMeant: (found: string) => boolean = () => true) {
  return (replacement: string): Redact =>
    (text) =>
      text.replace(pattern, (found) => (isMeant(found) ? replacement : found));
}

/** The check digit of card numbers. */
function passesLuhn(digits: string): boolean {
  if (digits.length < 13 || digits.length > 19 || /^0+$/.test(digits)) return false;
  let sum = 0;
  for (let index = 0; index < digits.length; index++) {
    const digit = Number(digits[digits.length - 1 - index]);
    const weighed = index % 2 === 1 ? 2 * digit : digit;
    sum += weighed > 9 ? weighed - 9 : weighed;
  }
  return sum % 10 === 0;
}

/** Digits alone are ids and times more often than phones: a phone has a plus sign, or groups. */
function isPhone(found: string): boolean {
  const digits = found.replace(/\D/g, "").length;
  if (digits < 8 || digits > 15) return false;
  if (found.startsWith("+")) return true;
  const groups = found.split(/[^\d]+/).filter((group) => group !== "");
  if (groups.length < 2 || /^\d{4}[ .-]\d{2}[ .-]\d{2}$/.test(found)) return false;
  if (/^\d{1,2}[ .-]\d{1,2}[ .-]\d{4}$/.test(found)) return false;
  return found.startsWith("(") || groups.length >= 3;
}

function listOf(value: unknown): string[] {
  return String(value ?? "")
    .split(",")
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== "");
}
