/** Words that SDKs send as an id by mistake, in whatever case (posthog-api 9.10). */
const REFUSED_IN_ANY_CASE = [
  "anonymous",
  "guest",
  "distinctid",
  "distinct_id",
  "id",
  "not_authenticated",
  "email",
  "undefined",
  "true",
  "false",
];
/** The same, but refused only as written here. The empty text stands for blank ids. */
const REFUSED_AS_WRITTEN = ["[object Object]", "NaN", "None", "none", "null", "0", ""];

const withQuotes = (ids: readonly string[]) => ids.flatMap((id) => [id, `'${id}'`, `"${id}"`]);
const anyCase: ReadonlySet<string> = new Set(withQuotes(REFUSED_IN_ANY_CASE));
const asWritten: ReadonlySet<string> = new Set(withQuotes(REFUSED_AS_WRITTEN));

/**
 * True for ids that stand for nobody in particular. Merging by one would join strangers, so no
 * merge ever takes it; events with such an id are kept like any other (posthog-api 9.10).
 */
export function isRefusedForMerging(distinctId: string): boolean {
  const id = distinctId.trim();
  return asWritten.has(id) || anyCase.has(id.toLowerCase());
}
