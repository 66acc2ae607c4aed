/**
 * Whether arrays and objects nest deeper than that in a JSON text, without reading it. Most texts do
 * not have so many brackets at all, which is fast to see.
 */
export function nestsDeeper(text: string, maxDepth: number): boolean {
  return (
    countUpTo(text, "{", maxDepth) + countUpTo(text, "[", maxDepth) > maxDepth &&
    readDepth(text) > maxDepth
  );
}

/** How often a character is in a text; once more than the limit is enough. */
function countUpTo(text: string, character: string, limit: number): number {
  let count = 0;
  let at = text.indexOf(character);
  while (at >= 0 && count <= limit) {
    count += 1;
    at = text.indexOf(character, at + 1);
  }
  return count;
}

/** How deep arrays and objects nest in a JSON text, without reading it. */
function readDepth(text: string): number {
  let deepest = 0;
  let depth = 0;
  let isInText = false;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (isInText) {
      if (code === 92) index += 1;
      else if (code === 34) isInText = false;
    } else if (code === 34) isInText = true;
    else if (code === 123 || code === 91) {
      depth += 1;
      if (depth > deepest) deepest = depth;
    } else if (code === 125 || code === 93) depth -= 1;
  }
  return deepest;
}
