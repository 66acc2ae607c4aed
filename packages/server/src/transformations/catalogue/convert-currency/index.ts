import type { PluginEvent, PluginMeta } from "@posthog/plugin-scaffold";

interface Global {
  target: string;
  rates: Map<string, number>;
  amounts: string[];
  currency: string;
  assumed: string;
  suffix: string;
  scale: number;
}

export function setupPlugin({ config, global }: PluginMeta<Global>) {
  const rates = typeof config.rates === "string" ? JSON.parse(config.rates || "{}") : config.rates;
  if (typeof rates !== "object" || rates === null || Array.isArray(rates)) {
    throw new Error("Rates have to be an object of numbers by currency.");
  }
  global.rates = new Map();
  for (const [code, rate] of Object.entries(rates)) {
    if (!(Number(rate) > 0)) throw new Error(`The rate of ${code} has to be a positive number.`);
    global.rates.set(codeOf(code), Number(rate));
  }
  global.target = codeOf(config.target);
  if (!global.rates.has(global.target)) throw new Error(`There is no rate for ${global.target}.`);
  global.amounts = String(config.amounts ?? "")
    .split(",")
    .map((path) => path.trim())
    .filter((path) => path !== "");
  global.currency = String(config.currency || "currency");
  global.assumed = codeOf(config.assume);
  global.suffix = String(config.suffix ?? "_normalized");
  const decimals = Number(config.decimals || 2);
  if (!(Number.isInteger(decimals) && decimals >= 0 && decimals <= 8)) {
    throw new Error("Decimals have to be a whole number from 0 to 8.");
  }
  global.scale = 10 ** decimals;
}

export function processEvent(event: PluginEvent, { global }: PluginMeta<Global>) {
  const { properties } = event;
  if (!properties) return event;
  const code = codeOf(properties[global.currency]) || global.assumed;
  if (code === "") return event;
  const from = global.rates.get(code);
  const to = global.rates.get(global.target);
  if (from === undefined || to === undefined) {
    properties.currency_problem = `no rate for ${code}`;
    return event;
  }
  let converted = 0;
  for (const path of global.amounts) {
    converted += convert(
      properties,
      Object.hasOwn(properties, path) ? [path] : path.split("."),
      (amount) => {
        return Math.round(((amount * from) / to) * global.scale) / global.scale;
      },
      global.suffix,
    );
  }
  if (converted === 0) return event;
  if (global.suffix === "") {
    properties.original_currency = code;
    properties[global.currency] = global.target;
  } else properties.normalized_currency = global.target;
  return event;
}

/** Converts what lies at a path; answers how many amounts there were. */
function convert(
  value: unknown,
  [name, ...rest]: string[],
  change: (amount: number) => number,
  suffix: string,
): number {
  if (name === undefined || typeof value !== "object" || value === null) return 0;
  if (Array.isArray(value)) {
    return value.reduce((sum, item) => sum + convert(item, [name, ...rest], change, suffix), 0);
  }
  const holder = value as Record<string, unknown>;
  if (!Object.hasOwn(holder, name)) return 0;
  if (rest.length > 0) return convert(holder[name], rest, change, suffix);
  const amount = amountOf(holder[name]);
  if (amount === undefined) return 0;
  holder[name + suffix] = change(amount);
  return 1;
}

/** A number and nothing else but its sign and its currency, before or behind it. */
const AMOUNT =
  /^([-+\u2212]?)\s*(?:[A-Z]{2,3}|\p{L}{0,2}\p{Sc})?\s*([-+\u2212]?)\s*(\d[\d.,'\u2019\s]*|[.,]\d+)\s*(?:[A-Z]{3}|\p{Sc})?$/iu;
/** Digits in groups of three, which a decimal part may follow; or no groups. */
const GROUPED = /^\d{1,3}([.,'\u2019 ])\d{3}(?:\1\d{3})*(?:([.,])(?!\1)\d*)?$/;
const UNGROUPED = /^\d*([.,]?)\d*$/;

/** Numbers as people write them; accountants put negative ones into brackets. */
function amountOf(value: unknown): number | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? value : undefined;
  if (typeof value !== "string" || value.length > 40) return undefined;
  const text = value.trim();
  const bracketed = /^\((.*)\)$/.exec(text);
  const bare = (bracketed?.[1] ?? text).trim();
  // As programs write them.
  if (/^[-+]?(?:\d+\.?\d*|\.\d+)e[-+]?\d+$/i.test(bare)) return finite(Number(bare));
  const [, before, behind, digits = ""] = AMOUNT.exec(bare) ?? [];
  const amount = plainNumber(digits.trim().replace(/\s/g, " "));
  if (amount === undefined) return undefined;
  const isNegative = bracketed !== null || /[-\u2212]/.test(`${before}${behind}`);
  return finite(isNegative ? -amount : amount);
}

function plainNumber(digits: string): number | undefined {
  if (digits === "") return undefined;
  const grouped = GROUPED.exec(digits);
  // One point is a decimal one (`1.299`); one comma before three digits groups them, but for `0,500`.
  const isGrouped =
    grouped !== null && (grouped[1] !== "." || /\..*[.,]/.test(digits)) && !/^0/.test(digits);
  if (isGrouped) {
    const [, group = "", decimal] = grouped;
    const whole = digits.replaceAll(group, "");
    return Number(decimal === undefined ? whole : whole.replace(decimal, "."));
  }
  return UNGROUPED.test(digits) ? Number(digits.replace(",", ".")) : undefined;
}

function finite(amount: number): number | undefined {
  return Number.isFinite(amount) ? amount : undefined;
}

function codeOf(value: unknown): string {
  return typeof value === "string" ? value.trim().toUpperCase() : "";
}
