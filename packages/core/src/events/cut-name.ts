/** Longest distinct id and event name (posthog-api 9.6, flag-evaluation 2.6). */
const MAX_NAME_CHARACTERS = 200;

/**
 * The first 200 characters of a distinct id or event name: what every request and every store knows
 * it by. Cuts at whole characters, so that no half of a pair is left.
 */
export function cutName(text: string): string {
  if (text.length <= MAX_NAME_CHARACTERS) return text;
  // No character takes more than two units: what lies beyond twice the limit cannot matter.
  const characters = Array.from(text.slice(0, 2 * MAX_NAME_CHARACTERS + 2));
  return characters.length <= MAX_NAME_CHARACTERS
    ? text
    : characters.slice(0, MAX_NAME_CHARACTERS).join("");
}
