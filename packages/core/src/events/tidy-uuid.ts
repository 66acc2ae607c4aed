const TIDY_UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Whether a text is a UUID as events have it: lower case with dashes. */
export function isTidyUuid(text: string): boolean {
  return TIDY_UUID.test(text);
}
