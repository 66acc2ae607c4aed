import type { Json } from "@hedgerow/core/json";
import { type Static, Type } from "typebox";
import { Refusal } from "../http/errors.ts";
import { queryText } from "../http/query-text.ts";
import type { PropertyValuesQuery } from "./property-values.ts";

export const PropertyValuesParameters = Type.Object({
  key: Type.Optional(Type.String({ description: "Name of an event property." })),
  value: Type.Optional(
    Type.String({ description: "Part of the values to find, whatever its case." }),
  ),
  event_name: Type.Optional(
    Type.String({ description: "Only of this event; may be repeated for several." }),
  ),
});

/** Values as PostHog's clients read them. */
export const PropertyValuesAnswer = Type.Array(Type.Object({ name: Type.Unknown() }), {
  description: "At most ten, the commonest first.",
});

/** Most events asked about in one request. */
const MAX_EVENT_NAMES = 10;

/** Reads the parameters; what is missing is refused by name. */
export function propertyValuesQueryOf(parameters: unknown, projectId: number): PropertyValuesQuery {
  const property = queryText(parameters, "key");
  if (!property) throw new Refusal("required", "This field is required.", { attr: "key" });
  const { event_name: given } = parameters as { event_name?: unknown };
  const eventNames = [given].flat().flatMap((name) => queryText({ name }, "name") || []);
  if (eventNames.length > MAX_EVENT_NAMES) {
    throw new Refusal("invalid_input", `No more than ${MAX_EVENT_NAMES} events at a time.`, {
      attr: "event_name",
    });
  }
  const search = queryText(parameters, "value") ?? "";
  return { projectId, property, eventNames: [...new Set(eventNames)], search };
}

/** The wire form of values. */
export function wirePropertyValues(values: readonly Json[]): Static<typeof PropertyValuesAnswer> {
  return values.map((name) => ({ name }));
}
