/** Longer texts are no dates. */
const MAX_LENGTH = 200;

/** A zone in words behind a number, or as a difference behind a time; a date may stand there as well. */
const ZONE =
  /\d.*(?<![a-z])(?:z|utc?|gmt|[ecmp][sd]t)(?![a-z])|:\d+(?:[:.]\d+)*[+-]|:.*(?:(?<![a-z\d])|(?<=\d ?[ap]m))[+-]/is;
/** A time in the form of ISO 8601, which takes no zone in words. */
const ISO_TIME = /\dT\d/i;

/**
 * The instant that V8 reads from a text, in milliseconds, where local time is universal time: in
 * whatever zone this process is. `null` where it reads none.
 */
export function readDate(text: string): number | null {
  if (text.length > MAX_LENGTH) return null;
  const plain = withoutComments(text);
  const zone = ZONE.test(plain) ? "" : ISO_TIME.test(plain) ? "Z" : " UTC";
  const instant = Date.parse(plain + zone);
  return Number.isNaN(instant) ? null : instant;
}

/** What V8 reads of it: all but what stands in brackets, `Sat Jan 01 2000 (noted by hand)`. */
function withoutComments(text: string): string {
  let plain = "";
  let depth = 0;
  for (const sign of text) {
    if (sign === "(") depth += 1;
    if (depth === 0) plain += sign;
    else if (sign === ")") {
      depth -= 1;
      plain += depth === 0 ? " " : "";
    }
  }
  return plain;
}
