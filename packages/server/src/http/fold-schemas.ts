/**
 * Gives every schema with a `title` one place under `components.schemas` and refers to it from
 * wherever it stood, so that a client generated from the description has one type for each.
 * Throws when two different schemas share a title.
 */
export function foldSchemas(description: object): Readonly<Record<string, unknown>> {
  const schemas = new Map<string, unknown>();

  function fold(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(fold);
    if (value === null || typeof value !== "object") return value;
    const folded = Object.fromEntries(
      Object.entries(value).map(([key, inner]) => [key, fold(inner)]),
    );
    const { title } = folded;
    if (typeof title !== "string" || !("type" in folded || "anyOf" in folded)) return folded;
    const known = schemas.get(title);
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(folded)) {
      throw new Error(`two different schemas have the title ${title}`);
    }
    schemas.set(title, folded);
    return { $ref: `#/components/schemas/${title}` };
  }

  // The description's own title is no schema's: its parts are folded, not itself.
  const folded: Record<string, unknown> = Object.fromEntries(
    Object.entries(description).map(([key, part]) => [key, fold(part)]),
  );
  const sorted = [...schemas].sort(([one], [other]) => (one < other ? -1 : 1));
  const components = { ...Object(folded.components), schemas: Object.fromEntries(sorted) };
  return { ...folded, components };
}
