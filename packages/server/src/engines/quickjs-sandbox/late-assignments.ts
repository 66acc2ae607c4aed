import type { Message } from "esbuild";
import type { SourceFiles } from "../../transformations/sandbox.ts";

/** Where in the given files a message of the bundler stands: its line from 1. */
export type Place = (
  message: Message,
) => { readonly file: string; readonly line: number } | undefined;

/** What the bundler refuses that engines only find out when it happens. */
const ASSIGNMENT =
  /^Cannot assign to "(.+)" because it is a constant$|^Cannot assign to import "(.+)"$/;

/** What a source is given to hold constants, by the name that is put into it. */
export const CONSTANT_HOLDER = "__constant";

/** Whether a message tells of an assignment to a constant, or to what is imported. */
export function isLateAssignment({ text }: Message): boolean {
  return ASSIGNMENT.test(text);
}

/**
 * The files with constants that are assigned to (`x = 1`) written so that this fails when it is done,
 * as it does in Node.js: `__constant(x).value = 1`. Nothing else of a line moves to another one.
 * @param isShorthand how those are written that may stand in a pattern, `({ x } = y)`
 * @returns `null` where none of the messages can be dealt with
 */
export function deferAssignments(
  files: SourceFiles,
  messages: readonly Message[],
  placeOf: Place,
  isShorthand: boolean,
): SourceFiles | null {
  const deferred: Record<string, string> = { ...files };
  let count = 0;
  // The last of a line first, so that those before it stay where they are.
  for (const message of [...messages].reverse()) {
    const { location } = message;
    const place = placeOf(message);
    if (!isLateAssignment(message) || location === null || place === undefined) continue;
    const lines = (deferred[place.file] ?? "").split("\n");
    const line = Buffer.from(lines[place.line - 1] ?? "");
    // Columns are counted in bytes.
    const before = line.subarray(0, location.column).toString();
    const name = line.subarray(location.column, location.column + location.length).toString();
    const after = line.subarray(location.column + location.length).toString();
    if (!message.text.includes(`"${name}"`) || before.endsWith(".")) continue;
    const key = isShorthand && /[{,]\s*$/.test(before) ? `${name}: ` : "";
    lines[place.line - 1] = `${before}${key}${CONSTANT_HOLDER}(${name}).value${after}`;
    deferred[place.file] = lines.join("\n");
    count += 1;
  }
  return count === 0 ? null : deferred;
}
