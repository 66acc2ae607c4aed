import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { referencesOf } from "../flags/definition-references.ts";
import type { VersionedDefinitions } from "../flags/flag-store.ts";
import type { EventDefinition } from "./event-definition-store.ts";

/** Something that looks at events of a name. */
export interface EventUse {
  readonly kind: "cohort" | "flag" | "experiment";
  readonly id: number;
  /** What people call it. */
  readonly name: string;
}

/** Finds what of one kind in a project looks at events of a name. */
export type FindEventUses = (
  event: Pick<EventDefinition, "projectId" | "name">,
  definitions: VersionedDefinitions,
) => readonly EventUse[] | Promise<readonly EventUse[]>;

/** Live cohorts whose rule asks for the event. */
export const cohortsUsingEvent: FindEventUses = ({ name: event }, { cohorts }) =>
  cohorts
    .filter(({ filters }) => asksForEvent(filters, event))
    .map(({ id, name }) => ({ kind: "cohort", id, name }));

/** Live flags, switched on or off, that depend on such a cohort, directly or through others. */
export const flagsUsingEvent: FindEventUses = ({ name: event }, { flags, cohorts }) => {
  const asking = new Set(
    cohorts.filter(({ filters }) => asksForEvent(filters, event)).map(({ id }) => id),
  );
  for (let size = -1; size !== asking.size; ) {
    size = asking.size;
    for (const { id, filters } of cohorts) if (namesCohort(filters, asking)) asking.add(id);
  }
  return flags
    .filter(({ filters }) => namesCohort(filters, asking))
    .map(({ id, key }) => ({ kind: "flag", id, name: key }));
};

function namesCohort(filters: JsonObject, ids: ReadonlySet<number>): boolean {
  return [...referencesOf(filters).cohortIds].some((id) => ids.has(id));
}

/** Kinds of conditions of cohorts that ask for past events (flag-evaluation 10.3). */
const ASKING = new Set<unknown>(["behavioral", "precalculated-cohort", "event"]);

/** Whether the filters of a cohort ask for events of a name. Reads any stored JSON. */
function asksForEvent(filters: JsonObject, event: string): boolean {
  const visit = (value: Json | undefined): boolean => {
    if (Array.isArray(value)) return (value as readonly Json[]).some(visit);
    if (!isJsonObject(value)) return false;
    if (!ASKING.has(ownValue(value, "type"))) return Object.values(value).some(visit);
    const names = (key: string, type: string) =>
      ownValue(value, key) === event && ownValue(value, type) !== "actions";
    return names("key", "event_type") || names("seq_event", "seq_event_type");
  };
  return visit(ownValue(filters, "properties"));
}
