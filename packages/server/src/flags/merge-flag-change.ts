import { isDeepStrictEqual } from "node:util";
import type { Json } from "@hedgerow/core/json";
import type { Activity } from "../activity/activity-log.ts";
import { jsonOfField } from "../activity/describe-change.ts";
import type { FlagChange, ShownFlag } from "./encrypted-payloads.ts";

/** What an edit started from: a version, and the fields as its author saw them, where they are sent. */
export interface EditBase {
  readonly version: number;
  readonly original: FlagChange;
}

/** What became of merging an edit into what others changed meanwhile. */
export type MergedEdit =
  | { readonly kind: "merged"; readonly change: FlagChange }
  | {
      readonly kind: "conflict";
      readonly fields: readonly string[];
      /** Who changed these fields last; `null` stands for somebody who is gone or unknown. */
      readonly authorIds: readonly (number | null)[];
    };

/**
 * Merges an edit that started from an earlier version: fields that its author left as they were keep
 * what others made of them, fields that only the author changed are taken, and a field that both
 * changed to different values is a conflict.
 * @param since what was done to the flag after the edit's version, oldest first
 */
export function mergeFlagChange(
  change: FlagChange,
  { current, base, since }: { current: ShownFlag; base: EditBase; since: readonly Activity[] },
): MergedEdit {
  const earlier = new Map<string, Json>();
  const authors = new Map<string, number | null>();
  for (const { changes, authorId } of since) {
    for (const { field, before } of changes) {
      if (!earlier.has(field)) earlier.set(field, before);
      authors.set(field, authorId);
    }
  }
  for (const [field, value] of Object.entries(base.original)) {
    earlier.set(field, jsonOfField(value));
  }
  // Without the whole history nobody can tell what others changed.
  const isWhole = since.length === current.version - base.version;
  const merged: [string, unknown][] = [];
  const fields: string[] = [];
  for (const [field, value] of Object.entries(change)) {
    const wanted = jsonOfField(value);
    const now = jsonOfField(current[field as keyof FlagChange]);
    if (isDeepStrictEqual(wanted, now)) continue;
    const before = earlier.get(field);
    if (before !== undefined && isDeepStrictEqual(wanted, before)) continue;
    const isOthers = before === undefined ? !isWhole : !isDeepStrictEqual(before, now);
    if (isOthers) fields.push(field);
    else merged.push([field, value]);
  }
  if (fields.length === 0) return { kind: "merged", change: Object.fromEntries(merged) };
  const authorIds = fields.map((field) => authors.get(field) ?? current.lastModifiedById);
  return { kind: "conflict", fields, authorIds: [...new Set(authorIds)] };
}
