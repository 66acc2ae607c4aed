/**
 * Where values stand in the line of an event, as it is told to the guest: two numbers for each, where
 * it begins and where it ends. The beginning of a text that stands there as it is, with nothing
 * escaped, is behind its quote and {@link PLAIN_TEXT} more: it is read without being parsed.
 */

/** More than a line has characters. */
export const PLAIN_TEXT = 2 ** 30;

/** Where a value begins, its quote included. */
export function beginningOf(place: number): number {
  return place >= PLAIN_TEXT ? place - PLAIN_TEXT - 1 : place;
}
