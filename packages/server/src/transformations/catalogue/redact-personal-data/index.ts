import type { PluginEvent, PluginMeta } from "@posthog/plugin-scaffold";
import { createHash } from "crypto";

type Redact = (text: string) => string;

interface Global {
  redact: Redact;
  finds: (text: string) => boolean;
  isCard: (value: number) => boolean;
  names: Set<string>;
  knownNames: Map<string, string>;
  except: Set<string>;
  replacement: string;
  hashesIds: boolean;
}

/** What stands for a letter or a mark where an address is part of a URL. */
const ENCODED = "%(?:2[7bde]|5f|[89a-f][0-9a-f])";
const LABEL = String.raw`[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?`;
const EMAIL = new RegExp(
  String.raw`(?:[\p{L}\p{N}_]|${ENCODED})(?:[\p{L}\p{N}._+'-]|${ENCODED}){0,63}(?:@|%40)(?:${LABEL}\.){1,8}(?:xn--[a-z0-9-]{2,59}|\p{L}{2,24})`,
  "giu",
);
const CARD = /(?<![\d.])\d(?:[ -]?\d){12,18}(?![\d.]?\d)/g;
/** How numbers of issuers begin, and how many digits they have: times and ids are none of these. */
const ISSUERS: [begins: RegExp, lengths: number[]][] = [
  [/^4/, [13, 16, 19]],
  [/^(?:5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720)/, [16]],
  [/^3[47]/, [15]],
  [/^(?:30[0-5]|3[689])/, [14, 15, 16, 17, 18, 19]],
  [/^(?:220[0-4]|35(?:2[89]|[3-8])|6[0-57]|8[12]|50)/, [16, 17, 18, 19]],
  [/^(?:5[06-8]|6)/, [13, 14, 15, 16, 17, 18, 19]],
];
/** As many as the shortest phone number has. */
const HAS_DIGITS = /(?:\d\D*){8}/;
const INTERNATIONAL = /(?<![\w+])(?:\+|%2B)\d{1,3}(?:[ .-]?\(?\d{1,4}\)?){1,6}(?!\w)/gi;
const NATIONAL =
  /(?<![\w+.:/-])(?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ .-]?\d{2,4}){1,5}(?![\w:/-]|\.\d)/g;
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
/** What all keys have one of: most texts are looked through once instead of for each kind. */
const KEY_SIGNS =
  /PRIVATE KEY|ey[\w-]{10}|A[KS]IA|gh[pousr]_|github_pat_|AIza|xox[abeoprs]-|[rs]k_|phx_|sk-|bearer\s/i;
const IPV4 =
  /(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\d.]*\d)/g;
const IPV6 = /(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])/gi;

const KINDS: Record<string, (replacement: string) => Redact> = {
  emails: (replacement) => {
    const redact = replaceAll(EMAIL)(replacement);
    return (text) => (text.includes("@") || text.includes("%40") ? redact(text) : text);
  },
  cards: (replacement) => {
    const redact = replaceAll(CARD, (found) => isCardNumber(found.replace(/\D/g, "")))(replacement);
    return (text) => (HAS_DIGITS.test(text) ? redact(text) : text);
  },
  phones: (replacement) => {
    const abroad = replaceAll(INTERNATIONAL, hasDigitsOfPhone)(replacement);
    const athome = replaceAll(NATIONAL, isPhone)(replacement);
    return (text) => (HAS_DIGITS.test(text) ? athome(abroad(text)) : text);
  },
  keys: (replacement) => {
    const all = KEYS.map((pattern) => replaceAll(pattern)(replacement));
    return (text) =>
      KEY_SIGNS.test(text) ? all.reduce((rest, redact) => redact(rest), text) : text;
  },
  addresses: (replacement) => {
    const [four, six] = [replaceAll(IPV4)(replacement), replaceAll(IPV6, isIpv6)(replacement)];
    return (text) => six(four(text));
  },
};
/** Longer finds first: the digits of a card could be those of a phone. */
const ORDER = ["keys", "emails", "cards", "addresses", "phones"];
const IDS = ["$anon_distinct_id", "alias", "distinct_id"];
const PERSON_PROPERTIES = ["$set", "$set_once"];
const MAX_DEPTH = 100;
const MAX_KNOWN_NAMES = 1000;

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
    ? (value) => Number.isSafeInteger(value) && value > 1e12 && isCardNumber(String(value))
    : () => false;
  global.names = new Set(listOf(config.names));
  global.except = new Set(listOf(config.except));
  if (config.personProperties === "no") {
    for (const name of PERSON_PROPERTIES) global.except.add(name);
  }
  global.replacement = replacement;
  global.knownNames = new Map();
  global.hashesIds = config.distinctId === "replace by a hash";
}

export function processEvent(event: PluginEvent, { global }: PluginMeta<Global>) {
  const { properties = {} } = event;
  for (const [name, value] of Object.entries(properties)) {
    const shown = nameOf(name, global);
    if (shown !== name) delete properties[name];
    properties[shown] = IDS.includes(name)
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
  const clean = Object.entries(value).map(([name, item]) => [
    nameOf(name, global),
    redactProperty(name, item, global, depth + 1),
  ]);
  return Object.fromEntries(clean);
}

/** The name of a property, redacted: few names come again and again. */
function nameOf(name: string, { redact, knownNames }: Global): string {
  let shown = knownNames.get(name);
  if (shown === undefined) {
    shown = redact(name);
    if (knownNames.size >= MAX_KNOWN_NAMES) knownNames.clear();
    knownNames.set(name, shown);
  }
  return shown;
}

function replaceAll(pattern: RegExp, isMeant: (found: string) => boolean = () => true) {
  return (replacement: string): Redact =>
    (text) =>
      text.replace(pattern, (found) => (isMeant(found) ? replacement : found));
}

function isCardNumber(digits: string): boolean {
  const isIssued = ISSUERS.some(
    ([begins, lengths]) => lengths.includes(digits.length) && begins.test(digits),
  );
  return isIssued && passesLuhn(digits);
}

/** The check digit of card numbers. */
function passesLuhn(digits: string): boolean {
  let sum = 0;
  for (let index = 0; index < digits.length; index++) {
    const digit = Number(digits[digits.length - 1 - index]);
    const weighed = index % 2 === 1 ? 2 * digit : digit;
    sum += weighed > 9 ? weighed - 9 : weighed;
  }
  return sum % 10 === 0;
}

/** As in North America, and in France. */
const DOTTED_PHONE = /^(?:\d{3}\.\d{3}\.\d{4}|0\d(?:\.\d\d){4})$/;

function hasDigitsOfPhone(found: string): boolean {
  const digits = found.replace(/%2B|\D/gi, "").length;
  return digits >= 8 && digits <= 15;
}

/** Digits alone are ids and times more often than phones: a phone has a plus sign, or groups. */
function isPhone(found: string): boolean {
  if (!hasDigitsOfPhone(found)) return false;
  // Versions, addresses and amounts have dots as well.
  if (/^[\d.]+$/.test(found) && !DOTTED_PHONE.test(found)) return false;
  const groups = found.split(/[^\d]+/).filter((group) => group !== "");
  if (groups.length < 2 || /^\d{4}[ .-]\d{2}[ .-]\d{2}$/.test(found)) return false;
  if (/^\d{1,2}[ .-]\d{1,2}[ .-]\d{4}$/.test(found)) return false;
  return found.startsWith("(") || groups.length >= 3;
}

/** Eight groups, or fewer around one `::`; times and hardware addresses have neither. */
function isIpv6(found: string): boolean {
  const halves = found.split("::");
  const groups = halves.flatMap((half) => (half === "" ? [] : half.split(":")));
  if (halves.length > 2 || groups.includes("")) return false;
  return halves.length === 2 ? groups.length > 0 && groups.length < 8 : groups.length === 8;
}

function listOf(value: unknown): string[] {
  return String(value ?? "")
    .split(",")
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== "");
}
