import { encodeJson } from "@hedgerow/core/exact-json";
import { type Json, type JsonObject, ownValue } from "@hedgerow/core/json";

/** A value that a property has, and how many have it. */
export interface CountedValue {
  readonly value: Json;
  readonly count: number;
}

/** A property, and how many have it. */
export interface CountedName {
  readonly name: string;
  readonly count: number;
}

/** Values told of a property, as many as PostHog tells. */
const MAX_VALUES = 20;
/** Longer values are not offered to choose from, nor held in memory. */
const MAX_VALUE_LENGTH = 1000;

/**
 * The values that most have of a property; of lists, what is in them counts.
 * @param part text that a value must contain, whatever the case
 */
export async function countValues(
  runs: AsyncIterable<readonly JsonObject[]>,
  { name, part }: { name: string; part: string | undefined },
): Promise<readonly CountedValue[]> {
  const counts = new Map<string, { value: Json; count: number }>();
  const wanted = part?.toLowerCase();
  for await (const run of runs) {
    for (const properties of run) {
      for (const value of valuesOf(ownValue(properties, name))) {
        const text = encodeJson(value);
        if (text.length > MAX_VALUE_LENGTH) continue;
        const shown = typeof value === "string" ? value : text;
        if (wanted !== undefined && !shown.toLowerCase().includes(wanted)) continue;
        const counted = counts.get(text);
        if (counted) counted.count++;
        else counts.set(text, { value, count: 1 });
      }
    }
  }
  return [...counts]
    .sort(([one, { count: a }], [other, { count: b }]) => b - a || compareTexts(one, other))
    .slice(0, MAX_VALUES)
    .map(([, counted]) => counted);
}

/** The properties that there are, those of most first. */
export async function countNames(
  runs: AsyncIterable<readonly JsonObject[]>,
): Promise<readonly CountedName[]> {
  const counts = new Map<string, number>();
  for await (const run of runs) {
    for (const properties of run) {
      for (const name of Object.keys(properties)) counts.set(name, (counts.get(name) ?? 0) + 1);
    }
  }
  return [...counts]
    .map(([name, count]) => ({ name, count }))
    .sort((one, other) => other.count - one.count || compareTexts(one.name, other.name));
}

function valuesOf(value: Json | undefined): readonly Json[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? [...new Set(value as readonly Json[])] : [value];
}

function compareTexts(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
