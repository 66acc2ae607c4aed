import { eventually } from "./eventually.ts";
import { PERSONAL_KEY } from "./server-under-test.ts";

/** A JSON object as it came over the wire. */
export type Wire = Record<string, unknown>;

/** An answer of the management API with its body read; `null` where there is none. */
export interface Answer<Body = Wire> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
}

export interface WireFlag extends Wire {
  readonly id: number;
  readonly key: string;
  readonly version: number;
}

export interface WireCohort extends Wire {
  readonly id: number;
}

export interface WireEvent {
  readonly id: string;
  readonly event: string;
  readonly distinct_id: string;
  readonly timestamp: string;
  readonly person: { readonly uuid: string; readonly properties: Wire } | null;
  readonly properties: Wire;
}

export interface WireList<Item> {
  readonly count: number;
  readonly next: string | null;
  readonly previous: string | null;
  readonly results: readonly Item[];
}

/** The few calls of the management API with which tests set up and look at a project. */
export interface Management {
  /** Any call; the path is taken as given. */
  call<Body = Wire>(method: string, path: string, body?: unknown): Promise<Answer<Body>>;
  /** Creates a flag from its `filters`; fails unless it was created. */
  createFlag(key: string, filters?: Wire, fields?: Wire): Promise<WireFlag>;
  patchFlag(id: number, fields: Wire): Promise<WireFlag>;
  createCohort(fields: Wire): Promise<WireCohort>;
  /** Stored events, newest first, narrowed by the query parameters of the events list. */
  events(query: Readonly<Record<string, string>>): Promise<readonly WireEvent[]>;
  /** Waits until so many events answer the query, and gives them. */
  eventsArrived(
    query: Readonly<Record<string, string>>,
    count?: number,
  ): Promise<readonly WireEvent[]>;
}

/** The management API of a server, with the personal key it was booted with unless another is given. */
export function openManagement(
  server: { readonly url: string },
  key: string = PERSONAL_KEY,
): Management {
  async function call<Body = Wire>(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<Answer<Body>> {
    const response = await fetch(new URL(path, server.url), {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const parsed = text === "" ? null : JSON.parse(text);
    return { status: response.status, headers: response.headers, body: parsed as Body };
  }

  async function expecting<Body>(
    status: number,
    method: string,
    path: string,
    body?: unknown,
  ): Promise<Body> {
    const answer = await call<Body>(method, path, body);
    if (answer.status === status) return answer.body;
    throw new Error(
      `${method} ${path} answered ${answer.status} instead of ${status}: ${JSON.stringify(answer.body)}`,
    );
  }

  const events: Management["events"] = async (query) => {
    const path = `/api/projects/@current/events/?${new URLSearchParams({ limit: "1000", ...query })}`;
    return (await expecting<WireList<WireEvent>>(200, "GET", path)).results;
  };

  return {
    call,
    createFlag: (key, filters = everyone(), fields = {}) =>
      expecting(201, "POST", "/api/projects/@current/feature_flags/", { key, filters, ...fields }),
    patchFlag: (id, fields) =>
      expecting(200, "PATCH", `/api/projects/@current/feature_flags/${id}/`, fields),
    createCohort: (fields) => expecting(201, "POST", "/api/projects/@current/cohorts/", fields),
    events,
    eventsArrived: (query, count = 1) =>
      eventually(`${count} event(s) with ${JSON.stringify(query)}`, async () => {
        const arrived = await events(query);
        if (arrived.length < count) throw new Error(`${arrived.length} arrived`);
        return arrived;
      }),
  };
}

/** Filters of a flag that is on for a share of all persons. */
export function everyone(rolloutPercentage = 100): Wire {
  return { groups: [{ properties: [], rollout_percentage: rolloutPercentage }] };
}

/** Filters of a flag that is on where all property filters match. */
export function where(...properties: readonly Wire[]): Wire {
  return { groups: [{ properties, rollout_percentage: 100 }] };
}

/** Filters of a flag that is on for groups of the first type where all property filters match. */
export function whereGroup(...properties: readonly Wire[]): Wire {
  return { aggregation_group_type_index: 0, ...where(...properties) };
}

/** A filter on a property of groups of the first type. */
export function groupIs(key: string, operator: string, value: unknown): Wire {
  return { key, type: "group", group_type_index: 0, operator, value };
}

/** A filter on a person property. */
export function personIs(key: string, operator: string, value?: unknown): Wire {
  return { key, type: "person", operator, ...(value !== undefined && { value }) };
}

/** Filters of a flag with variants for everyone; shares in the order of the variants. */
export function variants(shares: Readonly<Record<string, number>>, more: Wire = {}): Wire {
  return {
    groups: [{ properties: [], rollout_percentage: 100 }],
    multivariate: {
      variants: Object.entries(shares).map(([key, rollout_percentage]) => ({
        key,
        rollout_percentage,
      })),
    },
    ...more,
  };
}
