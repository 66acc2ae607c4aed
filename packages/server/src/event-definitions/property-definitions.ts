import { Refusal } from "../http/errors.ts";
import type { DefinitionRecorder } from "./definition-recorder.ts";
import { describeDefinition } from "./describe-definition.ts";
import type {
  ListedProperty,
  PropertyDefinition,
  PropertyDefinitionFields,
  PropertyDefinitionQuery,
  PropertyDefinitionStore,
} from "./property-definition-store.ts";
import { settleVerification } from "./settle-verification.ts";

/** What a caller may change of a definition; what is absent stays as it is. */
export type PropertyDefinitionChange = Partial<
  Omit<PropertyDefinitionFields, "verifiedAt" | "verifiedById">
>;

/** Property definitions as users handle them. Ids of other projects' definitions are unknown ids. */
export interface PropertyDefinitions {
  /** A property whose type is taken away gets the type of the next value that has one. */
  update(
    projectId: number,
    id: string,
    change: PropertyDefinitionChange,
    authorId: number,
  ): Promise<PropertyDefinition>;

  /** Throws `not_found`. */
  delete(projectId: number, id: string, authorId: number): Promise<void>;

  /** Throws `not_found`. */
  definition(projectId: number, id: string): Promise<PropertyDefinition>;

  list(
    projectId: number,
    query: PropertyDefinitionQuery,
  ): Promise<{ count: number; properties: readonly ListedProperty[] }>;

  /** Which of some events carry a property. */
  seenTogether(
    projectId: number,
    property: string,
    eventNames: readonly string[],
  ): Promise<ReadonlyMap<string, boolean>>;
}

/** {@link PropertyDefinitions} over a store. */
export function createPropertyDefinitions({
  store,
  recorder,
  clock,
}: {
  store: PropertyDefinitionStore;
  recorder: Pick<DefinitionRecorder, "around">;
  clock: () => Date;
}): PropertyDefinitions {
  const definition = async (projectId: number, id: string): Promise<PropertyDefinition> =>
    (await store.definition(projectId, id)) ?? refuseUnknown();

  return {
    async update(projectId, id, change, authorId) {
      const current = await definition(projectId, id);
      const now = clock();
      const fields = {
        ...typeFieldsOf(change),
        ...change,
        ...settleVerification(current, change, { what: "property", authorId, now }),
      };
      const save = () => store.update(projectId, id, fields, { authorId, now, describe });
      const saved = await (change.type === null ? recorder.around(projectId, save) : save());
      return saved ?? refuseUnknown();
    },

    async delete(projectId, id, authorId) {
      await definition(projectId, id);
      await recorder.around(projectId, () =>
        store.delete(projectId, id, { authorId, now: clock(), describe }),
      );
    },

    definition,

    list: (projectId, query) => store.list(projectId, query),

    async seenTogether(projectId, property, eventNames) {
      const together = new Map<string, boolean>();
      for (const event of eventNames) {
        const { count } = await store.list(projectId, {
          ...EVERY_EVENT_PROPERTY,
          names: [property],
          eventNames: [event],
        });
        together.set(event, count > 0);
      }
      return together;
    },
  };
}

const EVERY_EVENT_PROPERTY: PropertyDefinitionQuery = {
  subject: { kind: "event" },
  words: [],
  names: null,
  excludedNames: [],
  eventNames: null,
  onlySeenOnEvents: true,
  isFlagValue: null,
  isNumerical: null,
  excludeOfficial: false,
  excludeHidden: false,
  verified: null,
  tags: null,
  limit: 1,
  offset: 0,
};

/** A property is numerical when its type says so, unless the change itself says otherwise. */
function typeFieldsOf({ type }: PropertyDefinitionChange): { isNumerical?: boolean } {
  return type === undefined ? {} : { isNumerical: type === "Numeric" };
}

const describe = describeDefinition<PropertyDefinition>("PropertyDefinition", [
  "description",
  "tags",
  "type",
  "isNumerical",
  "verified",
  "hidden",
]);

function refuseUnknown(): never {
  throw new Refusal("not_found", "Not found.");
}
