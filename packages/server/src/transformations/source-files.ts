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
const COMPARE_WITHIN_MS = 1_000;

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

export function differences(
  before: TransformationFiles,
  after: TransformationFiles,
): readonly FileDifference[] {
  const [old, fresh] = [new Map(Object.entries(before)), new Map(Object.entries(after))];
  const names = [...new Set([...old.keys(), ...fresh.keys()])].toSorted();
  const endsAt = performance.now() + COMPARE_WITHIN_MS;
  return names.flatMap((file) => {
    const [from, to] = [old.get(file), fresh.get(file)];
    if (from === to) return [];
    const timeout = Math.floor(endsAt - performance.now());
    const patch =
      timeout > 0
        ? createTwoFilesPatch(file, file, from ?? "", to ?? "", undefined, undefined, {
            context: 3,
            timeout,
          })
        : null;
    const status = from === undefined ? "added" : to === undefined ? "removed" : "changed";
    return [{ file, status, patch: patch ?? null }];
  });
}
