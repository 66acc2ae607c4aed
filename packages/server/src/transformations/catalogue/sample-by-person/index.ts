import type { PluginEvent, PluginMeta } from "@posthog/plugin-scaffold";
import { createHash } from "crypto";

interface Global {
  share: number;
  salt: string;
  events: Set<string> | null;
  always: Set<string>;
  goesByDevice: boolean;
}

const STEPS = 2 ** 32;

export function setupPlugin({ config, global }: PluginMeta<Global>) {
  const percent = Number(config.percent);
  if (String(config.percent ?? "").trim() === "" || !(percent >= 0 && percent <= 100)) {
    throw new Error("The percentage has to be a number from 0 to 100.");
  }
  global.share = percent / 100;
  global.salt = String(config.salt ?? "");
  const events = listOf(config.events);
  global.events = events.length > 0 ? new Set(events) : null;
  global.always = new Set(listOf(config.keep));
  global.goesByDevice = config.by === "device";
}

export function processEvent(event: PluginEvent, { global }: PluginMeta<Global>) {
  if (global.always.has(event.event)) return event;
  if (global.events && !global.events.has(event.event)) return event;
  const device = global.goesByDevice ? event.properties?.$device_id : undefined;
  const whom = typeof device === "string" && device !== "" ? device : event.distinct_id;
  if (positionOf(whom, global.salt) >= global.share) return null;
  event.properties = { ...event.properties, $sample_rate: global.share };
  return event;
}

/** A number from 0 up to 1 that an id always has. */
function positionOf(id: string, salt: string): number {
  const digest = createHash("sha256").update(`${salt}\n${id}`).digest("hex");
  return Number.parseInt(digest.slice(0, 8), 16) / STEPS;
}

function listOf(value: unknown): string[] {
  return String(value ?? "")
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}
