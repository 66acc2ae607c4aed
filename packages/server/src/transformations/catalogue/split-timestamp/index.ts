import type { PluginEvent, PluginMeta } from "@posthog/plugin-scaffold";

/** Answers an instant as the clocks of a time zone show it, told as if that were UTC. */
type Clock = (instant: Date) => Date;

interface Global {
  timeZone: string;
  parts: string[];
  prefix: string;
  clocks: Map<string, Clock | null>;
}

const DAY_MS = 86_400_000;
const DAY_NAMES = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const PARTS: Record<string, (local: Date) => unknown> = {
  year: (local) => local.getUTCFullYear(),
  quarter: (local) => Math.floor(local.getUTCMonth() / 3) + 1,
  month: (local) => local.getUTCMonth() + 1,
  week: (local) => isoWeek(local).week,
  week_year: (local) => isoWeek(local).year,
  day: (local) => local.getUTCDate(),
  hour: (local) => local.getUTCHours(),
  minute: (local) => local.getUTCMinutes(),
  day_of_week: (local) => local.getUTCDay() || 7,
  day_name: (local) => DAY_NAMES[local.getUTCDay()],
  day_of_year: (local) =>
    Math.floor((local.getTime() - Date.UTC(local.getUTCFullYear(), 0)) / DAY_MS) + 1,
  is_weekend: (local) => [0, 6].includes(local.getUTCDay()),
  date: (local) => local.toISOString().slice(0, 10),
};

export function setupPlugin({ config, global }: PluginMeta<Global>) {
  global.clocks = new Map();
  global.timeZone = String(config.timeZone || "UTC").trim();
  if (global.timeZone !== "event" && !clockOf(global.timeZone, global)) {
    throw new Error(`There is no time zone "${global.timeZone}".`);
  }
  global.parts = String(config.parts || "hour, day_of_week")
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
  const unknown = global.parts.find((part) => part !== "time_zone" && !Object.hasOwn(PARTS, part));
  if (unknown !== undefined) throw new Error(`There is no part "${unknown}".`);
  global.prefix = String(config.prefix ?? "time_");
}

export function processEvent(event: PluginEvent, { global }: PluginMeta<Global>) {
  const instant = new Date(event.timestamp ?? event.now);
  if (Number.isNaN(instant.getTime())) return event;
  const properties = event.properties ?? {};
  const { name, clock } = zoneFor(properties, global);
  const local = clock(instant);
  for (const part of global.parts) {
    properties[global.prefix + part] = part === "time_zone" ? name : PARTS[part]?.(local);
  }
  event.properties = properties;
  return event;
}

function zoneFor(properties: Record<string, unknown>, global: Global) {
  const names =
    global.timeZone === "event"
      ? [properties.$timezone, properties.$geoip_time_zone]
      : [global.timeZone];
  for (const name of names) {
    if (typeof name !== "string" || name === "") continue;
    const clock = clockOf(name, global);
    if (clock) return { name, clock };
  }
  return { name: "UTC", clock: (instant: Date) => instant };
}

const MAX_CLOCKS = 100;
const MAX_OFFSET_MINUTES = 14 * 60;

function clockOf(name: string, { clocks }: Global): Clock | null {
  const known = clocks.get(name);
  if (known !== undefined) return known;
  const clock = makeClock(name);
  if (clocks.size >= MAX_CLOCKS) clocks.clear();
  clocks.set(name, clock);
  return clock;
}

function makeClock(name: string): Clock | null {
  if (/^(?:utc|gmt|z)$/i.test(name)) return (instant) => instant;
  const offset = /^([+-])(\d{1,2}):?(\d{2})?$/.exec(name);
  if (offset) {
    const minutes = Number(offset[2]) * 60 + Number(offset[3] ?? 0);
    if (Number(offset[3] ?? 0) > 59 || minutes > MAX_OFFSET_MINUTES) return null;
    const shiftMs = (offset[1] === "-" ? -1 : 1) * minutes * 60_000;
    return (instant) => new Date(instant.getTime() + shiftMs);
  }
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat("en-US", {
      timeZone: name,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
  } catch {
    return null;
  }
  return (instant) => {
    const parts = new Map(format.formatToParts(instant).map(({ type, value }) => [type, value]));
    const of = (type: string) => Number(parts.get(type as Intl.DateTimeFormatPartTypes));
    return new Date(
      Date.UTC(of("year"), of("month") - 1, of("day"), of("hour"), of("minute"), of("second")),
    );
  };
}

function isoWeek(local: Date): { year: number; week: number } {
  const day = Math.floor(local.getTime() / DAY_MS);
  const weekday = local.getUTCDay() || 7;
  const thursday = new Date((day - weekday + 4) * DAY_MS);
  const year = thursday.getUTCFullYear();
  return { year, week: Math.floor((thursday.getTime() - Date.UTC(year, 0)) / DAY_MS / 7) + 1 };
}
