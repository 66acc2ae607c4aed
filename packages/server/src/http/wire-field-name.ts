/** What a record's field is called on the wire: underscores for capitals. */
export function wireFieldName(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
