import type { TransformationFiles } from "@hedgerow/core/transformations/transformation";
import { createTwoFilesPatch } from "diff";

/** Files by name; `null` takes one away. */
export type SourcePatch = Readonly<Record<string, string | null>>;

/** How a file differs between two versions. */
export interface FileDifference {
  readonly file: string;
  readonly status: "added" | "removed" | "changed";
  /** Unified; `null` where comparing would take too long. */
  readonly patch: string | null;
}
/** For all files together; each further line that differs takes a turn of a millisecond or so. */
const COMPARE_WITHIN_MS = 5_000;
/** Longer files, as they come out of bundlers, are not compared: splitting and joining them takes one long turn. */
const MAX_COMPARED_CHARS = 500_000;
const MAX_COMPARED_LINES = 20_000;

/** Files with some changed. */
export function patched(files: TransformationFiles, patch: SourcePatch): TransformationFiles {
  const after = new Map<string, string>(Object.entries(files));
  for (const [name, text] of Object.entries(patch)) {
    if (text === null) after.delete(name);
    else after.set(name, text);
  }
  return Object.fromEntries(after);
}

/** Whether files are the same, in whatever order. */
export function isSameSource(a: TransformationFiles, b: TransformationFiles): boolean {
  const [left, right] = [new Map(Object.entries(a)), new Map(Object.entries(b))];
  return left.size === right.size && [...left].every(([name, text]) => right.get(name) === text);
}

/** How files differ, found in turns with whatever else the process does. */
export async function differences(
  before: TransformationFiles,
  after: TransformationFiles,
): Promise<readonly FileDifference[]> {
  const [old, fresh] = [new Map(Object.entries(before)), new Map(Object.entries(after))];
  const endsAt = performance.now() + COMPARE_WITHIN_MS;
  const found: FileDifference[] = [];
  for (const file of [...new Set([...old.keys(), ...fresh.keys()])].toSorted()) {
    const [from, to] = [old.get(file), fresh.get(file)];
    if (from === to) continue;
    const withinMs = Math.floor(endsAt - performance.now());
    const patch = withinMs > 0 ? await patchOf(file, from ?? "", to ?? "", withinMs) : null;
    const status = from === undefined ? "added" : to === undefined ? "removed" : "changed";
    found.push({ file, status, patch });
  }
  return found;
}

function patchOf(file: string, from: string, to: string, withinMs: number): Promise<string | null> {
  if (isLong(from) || isLong(to)) return Promise.resolve(null);
  return new Promise((resolve) => {
    createTwoFilesPatch(file, file, from, to, undefined, undefined, {
      context: 3,
      timeout: withinMs,
      callback: (patch) => resolve(patch ?? null),
    });
  });
}

function isLong(text: string): boolean {
  if (text.length > MAX_COMPARED_CHARS) return true;
  let lines = 0;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) lines += 1;
  return lines > MAX_COMPARED_LINES;
}
