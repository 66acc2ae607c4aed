import type { PluginEvent, PluginMeta } from "@posthog/plugin-scaffold";
import { isbot } from "./isbot.js";

interface Global {
  drops: boolean;
  names: string[];
  allowed: string[];
  also: string[];
  ranges: { base: number; mask: number }[];
  refusesSilent: boolean;
  /** What was judged before: the list of patterns is long. */
  known: Map<string, boolean>;
}

const MAX_KNOWN = 1000;
const MAX_LENGTH = 1000;

export function setupPlugin({ config, global }: PluginMeta<Global>) {
  global.drops = config.action !== "mark";
  global.names = listOf(config.property ?? "$raw_user_agent");
  global.allowed = listOf(config.allow).map((text) => text.toLowerCase());
  global.also = listOf(config.also).map((text) => text.toLowerCase());
  global.ranges = listOf(config.addresses).map(readRange);
  global.refusesSilent = config.withoutUserAgent === "treat as bots";
  global.known = new Map();
}

export function processEvent(event: PluginEvent, { global }: PluginMeta<Global>) {
  const isBot = comesFromBot(event, global);
  if (isBot && global.drops) return null;
  if (!global.drops) event.properties = { ...event.properties, $is_bot: isBot };
  return event;
}

function comesFromBot({ properties = {}, ip }: PluginEvent, global: Global): boolean {
  if (properties.$webdriver === true) return true;
  const address = addressOf(properties.$ip ?? ip);
  if (address !== undefined && global.ranges.some((range) => isIn(address, range))) return true;
  const name = global.names.find((one) => typeof properties[one] === "string");
  const userAgent = name === undefined ? "" : String(properties[name]).slice(0, MAX_LENGTH);
  if (userAgent === "") return global.refusesSilent && properties.$lib === "web";
  let isBot = global.known.get(userAgent);
  if (isBot === undefined) {
    isBot = judge(userAgent, global);
    if (global.known.size >= MAX_KNOWN) global.known.clear();
    global.known.set(userAgent, isBot);
  }
  return isBot;
}

function judge(userAgent: string, { allowed, also }: Global): boolean {
  const text = userAgent.toLowerCase();
  if (allowed.some((part) => text.includes(part))) return false;
  return also.some((part) => text.includes(part)) || isbot(userAgent);
}

function readRange(text: string) {
  const [address = "", length = "32"] = text.split("/");
  const base = addressOf(address);
  const bits = Number(length);
  if (base === undefined || !(Number.isInteger(bits) && bits >= 0 && bits <= 32)) {
    throw new Error(`"${text}" is no IPv4 address or range.`);
  }
  return { base, mask: bits === 0 ? 0 : (-1 << (32 - bits)) >>> 0 };
}

function isIn(address: number, { base, mask }: { base: number; mask: number }): boolean {
  return ((address ^ base) & mask) === 0;
}

function addressOf(value: unknown): number | undefined {
  if (typeof value !== "string") return undefined;
  const parts = value.replace(/^::ffff:/i, "").split(".");
  if (parts.length !== 4 || !parts.every((part) => /^\d{1,3}$/.test(part) && Number(part) < 256)) {
    return undefined;
  }
  return parts.reduce((sum, part) => sum * 256 + Number(part), 0);
}

function listOf(value: unknown): string[] {
  return String(value ?? "")
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}
