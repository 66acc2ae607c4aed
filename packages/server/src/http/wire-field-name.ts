/** What a record's field is called on the wire: underscores for capitals. */
export function wireFieldName(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** A record of ours, and all in it, with fields named as the wire does. */
export function wireNames(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(wireNames);
  return Object.fromEntries(
    Object.entries(value).map(([field, inner]) => [wireFieldName(field), wireNames(inner)]),
  );
}
