/**
 * Whatever may be a step upwards in a path that is put together (`"../" + name`), once or more for
 * each: two dots that follow each other in what the text means, be they written as `\x2e` or apart.
 */
const STEP = /\.\.?(?=["'`\\]|\$\{)|\.\.(?=\/)|\\(?:x2e|u002e|u\{0*2e\}|0?56)/gi;
const ROOT = "/.absent";

/** How many steps upwards the paths in a text may have together, at most. */
export function countSteps(text: string): number {
  return text.match(STEP)?.length ?? 0;
}

/**
 * Where a file seems to lie: a folder that is not there, so deep that none of its paths leads out of
 * it. Paths that are put together are the only ones that the bundler looks for by itself, on the disk.
 */
export function absentFolder(text: string): string {
  return ROOT + "/x".repeat(countSteps(text));
}
