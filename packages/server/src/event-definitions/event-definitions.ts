import type { AccountStore, Project } from "../accounts/account-store.ts";
import type { EventStore } from "../events/event-store.ts";
import type { VersionedDefinitions } from "../flags/flag-store.ts";
import { Refusal } from "../http/errors.ts";
import type { DefinitionRecorder } from "./definition-recorder.ts";
import { describeDefinition } from "./describe-definition.ts";
import type {
  EventDefinition,
  EventDefinitionFields,
  EventDefinitionQuery,
  EventDefinitionStore,
} from "./event-definition-store.ts";
import type { EventUse, FindEventUses } from "./event-uses.ts";
import { settleVerification } from "./settle-verification.ts";
import { MAX_EVENT_DEFINITIONS } from "./sighting-store.ts";

/** What a caller may change of a definition; what is absent stays as it is. */
export type EventDefinitionChange = Partial<
  Omit<EventDefinitionFields, "verifiedAt" | "verifiedById">
>;

/** Which project a definition is of. */
type Place = Pick<Project, "id" | "organizationId">;

/** Event definitions as users handle them. Ids of other projects' definitions are unknown ids. */
export interface EventDefinitions {
  /** A definition before its first event. Refuses a name that is taken. */
  declare(
    place: Place,
    draft: { readonly name: string; readonly change: EventDefinitionChange },
    authorId: number,
  ): Promise<EventDefinition>;

  /** Throws `not_found`. */
  update(
    place: Place,
    id: string,
    change: EventDefinitionChange,
    authorId: number,
  ): Promise<EventDefinition>;

  /** The same change for several; nothing changes when one of the ids is unknown. */
  updateAll(
    place: Place,
    ids: readonly string[],
    change: EventDefinitionChange,
    authorId: number,
  ): Promise<readonly EventDefinition[]>;

  /** Throws `not_found`. */
  delete(projectId: number, id: string, authorId: number): Promise<void>;

  /** Nothing is deleted when one of the ids is unknown. */
  deleteAll(projectId: number, ids: readonly string[], authorId: number): Promise<void>;

  /** Throws `not_found`. */
  definition(projectId: number, id: string): Promise<EventDefinition>;
  /** Throws `not_found`. */
  definitionByName(projectId: number, name: string): Promise<EventDefinition>;

  list(
    projectId: number,
    query: EventDefinitionQuery,
  ): Promise<{ count: number; definitions: readonly EventDefinition[] }>;

  /** What looks at the event, kind by kind. Throws `not_found`. */
  uses(projectId: number, id: string): Promise<readonly EventUse[]>;

  /** How many such events of the last 30 days are stored. Throws `not_found`. */
  recentCount(projectId: number, id: string): Promise<number>;
}

const RECENT_MS = 30 * 86_400_000;

/** {@link EventDefinitions} over a store. */
export function createEventDefinitions({
  store,
  recorder,
  accounts,
  events,
  definitionsOf,
  uses,
  clock,
}: {
  store: EventDefinitionStore;
  recorder: Pick<DefinitionRecorder, "around">;
  accounts: Pick<AccountStore, "membershipsOf">;
  events: Pick<EventStore, "count">;
  /** The flags and cohorts of a project. */
  definitionsOf: (projectId: number) => Promise<VersionedDefinitions>;
  /** In the order in which they are told. */
  uses: readonly FindEventUses[];
  clock: () => Date;
}): EventDefinitions {
  const definition = async (projectId: number, id: string): Promise<EventDefinition> =>
    (await store.definition(projectId, id)) ?? refuseUnknown();

  async function checkOwner({ organizationId }: Place, ownerId: number | null | undefined) {
    if (ownerId === null || ownerId === undefined) return;
    const memberships = await accounts.membershipsOf(ownerId);
    if (memberships.some(({ organization }) => organization.id === organizationId)) return;
    throw new Refusal("invalid_input", `Invalid pk "${ownerId}" - object does not exist.`, {
      attr: "owner",
    });
  }

  async function save(
    current: EventDefinition,
    change: EventDefinitionChange,
    authorId: number,
  ): Promise<EventDefinition> {
    const now = clock();
    const settled = settleVerification(current, change, { what: "event", authorId, now });
    const { projectId, id } = current;
    const write = { authorId, now, describe };
    const saved = await store.update(projectId, id, { ...change, ...settled }, write);
    return saved ?? refuseUnknown();
  }

  const all = async (projectId: number, ids: readonly string[]) => {
    const found: EventDefinition[] = [];
    for (const [index, id] of ids.entries()) {
      const one = await store.definition(projectId, id);
      if (!one) {
        throw new Refusal("invalid_input", `Invalid pk "${id}" - object does not exist.`, {
          attr: `ids__${index}`,
        });
      }
      found.push(one);
    }
    return found;
  };

  return {
    async declare(place, { name, change }, authorId) {
      await checkOwner(place, change.ownerId);
      const now = clock();
      const settled = settleVerification(NEW, change, { what: "event", authorId, now });
      const fields = { ...NEW, ...change, ...settled };
      const declared = await store.declare(place.id, name, fields, { authorId, now, describe });
      switch (declared) {
        case "duplicate-name":
          throw new Refusal("unique", `An event definition named '${name}' already exists.`, {
            attr: "name",
          });
        case "limit-reached":
          throw new Refusal(
            "invalid_input",
            `The project has ${MAX_EVENT_DEFINITIONS} event definitions, as many as it may.`,
            { attr: "name" },
          );
        default:
          return declared;
      }
    },

    async update(place, id, change, authorId) {
      const current = await definition(place.id, id);
      await checkOwner(place, change.ownerId);
      return await save(current, change, authorId);
    },

    async updateAll(place, ids, change, authorId) {
      await checkOwner(place, change.ownerId);
      const changed: EventDefinition[] = [];
      for (const one of await all(place.id, ids)) changed.push(await save(one, change, authorId));
      return changed;
    },

    async delete(projectId, id, authorId) {
      await definition(projectId, id);
      await recorder.around(projectId, () =>
        store.delete(projectId, id, { authorId, now: clock(), describe }),
      );
    },

    async deleteAll(projectId, ids, authorId) {
      await all(projectId, ids);
      await recorder.around(projectId, async () => {
        for (const id of ids) {
          await store.delete(projectId, id, { authorId, now: clock(), describe });
        }
      });
    },

    definition,

    definitionByName: async (projectId, name) =>
      (await store.definitionByName(projectId, name)) ?? refuseUnknown(),

    list: (projectId, query) => store.list(projectId, query),

    async uses(projectId, id) {
      const event = await definition(projectId, id);
      const definitions = await definitionsOf(projectId);
      return (await Promise.all(uses.map((find) => find(event, definitions)))).flat();
    },

    async recentCount(projectId, id) {
      const { name } = await definition(projectId, id);
      const since = new Date(clock().getTime() - RECENT_MS);
      return await events.count({ projectId, event: name, after: since });
    },
  };
}

/** What a declared event is where its author says nothing. */
const NEW: EventDefinitionFields = {
  description: null,
  ownerId: null,
  verified: false,
  verifiedAt: null,
  verifiedById: null,
  hidden: false,
  tags: [],
  defaultColumns: [],
  postToSlack: false,
};

const describe = describeDefinition<EventDefinition>("EventDefinition", [
  "description",
  "ownerId",
  "verified",
  "hidden",
  "tags",
  "defaultColumns",
  "postToSlack",
]);

function refuseUnknown(): never {
  throw new Refusal("not_found", "Not found.");
}
