import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CapturedEvent } from "@hedgerow/core/events/event";
import type { JsonObject } from "@hedgerow/core/json";
import pino from "pino";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createBacktrackingRegex } from "../engines/backtracking-regex/backtracking-regex.ts";
import { openDuckDbEvents } from "../engines/duckdb-events/duckdb-events.ts";
import { openEmbeddedLog } from "../engines/embedded-log/embedded-log.ts";
import { createAccountStore } from "../engines/sql/account-store.ts";
import { createPersonRecords } from "../engines/sql/person-records.ts";
import { plainPersonStore } from "../engines/sql/plain-person-store.setup.ts";
import { projectsAndUsers } from "../engines/sql/projects-and-users.setup.ts";
import { openTemporarySqlite } from "../engines/sql/sql-engines.contract.ts";
import { createApp } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { managementApi } from "../http/management-api.ts";
import { sampleEvent } from "./event-log.contract.ts";
import { eventRoutes } from "./events.routes.ts";

async function openEventsApi() {
  const folder = mkdtempSync(join(tmpdir(), "hedgerow-events-"));
  const database = await openTemporarySqlite();
  const accounts = createAccountStore(database);
  const { newProject } = await projectsAndUsers(database);
  const log = await openEmbeddedLog(join(folder, "log.sqlite"));
  const events = await openDuckDbEvents(join(folder, "events.duckdb"));
  const persons = plainPersonStore(database);
  const app = createApp({ logger: pino({ level: "silent" }) });
  managementApi(
    app,
    async (request) => {
      const { project_id: id } = request.params as { project_id?: string };
      const project = await accounts.project(Number(id));
      if (!project) throw new Refusal("not_found", "Project not found.");
      return { project, user: {}, key: {}, memberships: [], membership: null } as never;
    },
    (management) =>
      eventRoutes(management, {
        events,
        log,
        persons: createPersonRecords(database, persons),
        clock: () => new Date("2026-03-01T10:00:00Z"),
        backtracking: createBacktrackingRegex(),
      }),
  );
  await app.ready();

  /** What the worker does with everything that is in the log. */
  async function store(): Promise<void> {
    while ((await events.position()) < (await log.end())) await storeRun();
  }
  async function storeRun(): Promise<void> {
    const { entries, end } = await log.read(await events.position(), 10_000, signal);
    const outcomes = await persons.applyEvents(entries);
    const rows = entries.map(({ position, event }, index) => ({
      position,
      event,
      personId: outcomes[index]?.personId ?? "",
      groupKeys: [],
      changedBy: [],
    }));
    const merges = outcomes.flatMap(({ position, merged }, index) =>
      merged ? [{ position, projectId: entries[index]?.event.projectId ?? 0, ...merged }] : [],
    );
    await events.insert({ rows, merges, drops: [], deadLetters: [], end });
  }
  const { signal } = new AbortController();

  return {
    newProject,
    log,
    store,
    async capture(list: readonly CapturedEvent[]): Promise<void> {
      await log.append(list);
      await store();
    },
    async get(url: string) {
      const response = await app.inject({ method: "GET", url });
      return { status: response.statusCode, body: JSON.parse(response.body) };
    },
    async close() {
      await app.close();
      await log.close();
      await events.close();
      await database.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

let api: Awaited<ReturnType<typeof openEventsApi>>;
let projectId: number;
let path: string;

beforeAll(async () => {
  api = await openEventsApi();
});
afterAll(() => api.close());
beforeEach(async () => {
  projectId = await api.newProject();
  path = `/api/projects/${projectId}/events`;
});

const event = (name: string, fields: Partial<CapturedEvent> = {}): CapturedEvent =>
  sampleEvent({ projectId, event: name, ...fields });
const withProperties = (name: string, properties: JsonObject) => event(name, { properties });

async function list(parameters: Record<string, string> = {}) {
  return api.get(`${path}/?${new URLSearchParams(parameters)}`);
}
async function names(parameters: Record<string, string> = {}): Promise<readonly string[]> {
  const { status, body } = await list(parameters);
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body.results.map((result: { event: string }) => result.event);
}
const filter = (...filters: readonly object[]) => ({ properties: JSON.stringify(filters) });
const refusal = (attr: string, detail: unknown = expect.any(String)) => ({
  status: 400,
  body: { type: "validation_error", code: "invalid_input", detail, attr },
});

describe("listing events", () => {
  it("[EV-1] shows an event whole, with its person as known now", async () => {
    const properties = JSON.parse(
      '{"$set":{"plan":"pro"},"z":1,"a":{"__proto__":1,"constructor":[null,"ß🦔"]},"big":"12345678901234567890"}',
    );
    const captured = event("signed up", {
      distinctId: "user:1",
      properties,
      timestamp: new Date("2026-02-28T23:59:59.999Z"),
      receivedAt: new Date("2026-03-01T00:00:00Z"),
    });
    await api.capture([captured]);
    const { status, body } = await list();
    expect(status).toBe(200);
    expect(body).toEqual({
      count: 1,
      next: null,
      previous: null,
      results: [
        {
          id: captured.uuid,
          uuid: captured.uuid,
          distinct_id: "user:1",
          properties,
          event: "signed up",
          timestamp: "2026-02-28T23:59:59.999000Z",
          received_at: "2026-03-01T00:00:00Z",
          person: {
            id: expect.any(Number),
            uuid: expect.stringMatching(/^[0-9a-f-]{36}$/),
            distinct_ids: ["user:1"],
            properties: expect.objectContaining({ plan: "pro" }),
            created_at: expect.any(String),
            is_identified: expect.any(Boolean),
          },
          elements: [],
          elements_chain: "",
        },
      ],
    });
    expect(JSON.stringify(body.results[0].properties)).toBe(JSON.stringify(properties));
  });

  it("[EV-1] shows no person for events without one", async () => {
    await api.capture([withProperties("quiet", { $process_person_profile: false })]);
    expect((await list()).body.results[0].person).toBeNull();
  });

  it("[EV-1] answers an empty list for a project without events, and 404 without the project", async () => {
    expect((await list()).body).toEqual({ count: 0, next: null, previous: null, results: [] });
    expect((await api.get("/api/projects/999999/events/")).status).toBe(404);
  });

  it("[EV-2] selects by event, distinct id, person and time, both bounds exclusive", async () => {
    const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second));
    await api.capture([
      event("a", { distinctId: "x", timestamp: at(1) }),
      event("b", { distinctId: "x", timestamp: at(2) }),
      event("a", { distinctId: "y", timestamp: at(3) }),
    ]);
    expect(await names({ event: "a" })).toEqual(["a", "a"]);
    expect(await names({ event: "a", distinct_id: "x" })).toEqual(["a"]);
    expect(await names({ event: "A" })).toEqual([]);
    expect(await names({ event: "" })).toEqual(["a", "b", "a"]);
    expect(await names({ after: "2026-01-01T00:00:01Z", before: "2026-01-01T00:00:03Z" })).toEqual([
      "b",
    ]);
    const { body } = await list({ distinct_id: "y" });
    const person = body.results[0].person.uuid;
    expect(await names({ person_id: person })).toEqual(["a"]);
    expect(await names({ person_id: person.toUpperCase() })).toEqual(["a"]);
    expect(await names({ person_id: crypto.randomUUID() })).toEqual([]);
  });

  it("[EV-2] reads both histories of merged persons as one", async () => {
    await api.capture([
      event("before", { distinctId: "anon" }),
      event("own", { distinctId: "known" }),
      event("$identify", { distinctId: "known", properties: { $anon_distinct_id: "anon" } }),
    ]);
    const { body } = await list({ distinct_id: "anon" });
    const { person } = body.results[0];
    expect(person.distinct_ids.toSorted()).toEqual(["anon", "known"]);
    expect((await names({ person_id: person.uuid })).toSorted()).toEqual([
      "$identify",
      "before",
      "own",
    ]);
  });

  it("[EV-2] understands times as people write them", async () => {
    await api.capture([event("noon", { timestamp: new Date("2026-01-01T12:00:00Z") })]);
    for (const before of [
      "2026-01-02",
      "2026-01-01 12:00:01",
      "2026-01-01T14:00:01+02:00",
      "2026-01-01T12:00:00.001Z",
      String(Date.UTC(2026, 0, 1, 12, 0, 1)),
    ]) {
      expect(await names({ before }), before).toEqual(["noon"]);
    }
    expect((await api.get(`${path}?before=2026-01-01T14:00:01+02:00`)).body.count).toBe(1);
    expect(await names({ before: "2026-01-01T12:00:00Z" })).toEqual([]);
  });

  it("[EV-3] orders newest first unless asked otherwise", async () => {
    const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second));
    await api.capture([1, 3, 2].map((second) => event(`${second}`, { timestamp: at(second) })));
    expect(await names()).toEqual(["3", "2", "1"]);
    expect(await names({ orderBy: '["-timestamp"]' })).toEqual(["3", "2", "1"]);
    expect(await names({ orderBy: '["timestamp"]' })).toEqual(["1", "2", "3"]);
    expect(await names({ orderBy: "timestamp" })).toEqual(["1", "2", "3"]);
    expect(await names({ order: "timestamp ASC" })).toEqual(["1", "2", "3"]);
  });

  it("[EV-3] pages through everything by the links of each answer", async () => {
    await api.capture(Array.from({ length: 7 }, (_, index) => event(`${index}`)));
    const seen: string[] = [];
    let next: string | null = `${path}/?limit=3`;
    const counts: unknown[] = [];
    while (next !== null) {
      const { body } = await api.get(next.replace(/^https?:\/\/[^/]+/, ""));
      seen.push(...body.results.map((result: { event: string }) => result.event));
      counts.push(body.count);
      next = body.next;
    }
    expect(seen.toSorted()).toEqual(["0", "1", "2", "3", "4", "5", "6"]);
    expect(counts).toEqual([7, 7, 7]);
    const past = await list({ offset: "50" });
    expect(past.body.results).toEqual([]);
    expect(past.body.count).toBe(7);
    expect(past.body.previous).toContain("limit=100");
    expect(await names({ limit: "nonsense", offset: "-3" })).toHaveLength(7);
  });

  it("[EV-3] ends a page of huge events early and goes on from there", async () => {
    const text = "x".repeat(1_900_000);
    await api.capture(Array.from({ length: 10 }, (_, n) => withProperties(`${n}`, { text })));
    const { body } = await list();
    expect(body.results.length).toBeGreaterThan(1);
    expect(body.results.length).toBeLessThan(10);
    expect(body.count).toBe(10);
    const rest = await api.get(body.next.replace(/^https?:\/\/[^/]+/, ""));
    expect(body.results.length + rest.body.results.length).toBe(10);
  });

  it("[EV-4] keeps events whose properties satisfy every filter, by the operators of flags", async () => {
    await api.capture([
      withProperties("1", { plan: "pro", seats: 10, 'odd "key"': "ü" }),
      withProperties("2", { plan: "free", seats: "3" }),
      withProperties("3", { other: true }),
    ]);
    const found = async (...filters: readonly object[]) =>
      (await names(filter(...filters))).toSorted();
    expect(await found()).toEqual(["1", "2", "3"]);
    expect(await found({ key: "plan", value: "PRO" })).toEqual(["1"]);
    expect(await found({ key: "plan", value: ["pro", "free"], operator: "exact" })).toEqual([
      "1",
      "2",
    ]);
    expect(await found({ key: "plan", value: "pro", operator: "is_not" })).toEqual(["2", "3"]);
    expect(await found({ key: "plan", operator: "is_set", type: "event" })).toEqual(["1", "2"]);
    expect(await found({ key: "plan", operator: "is_not_set" })).toEqual(["3"]);
    expect(await found({ key: "seats", operator: "gt", value: 5 })).toEqual(["1"]);
    expect(await found({ key: "seats", operator: "lte", value: "3" })).toEqual(["2"]);
    expect(await found({ key: "plan", operator: "regex", value: "^(?!free)" })).toEqual(["1"]);
    expect(await found({ key: 'odd "key"', operator: "icontains", value: "ü" })).toEqual(["1"]);
    expect(await found({ key: "constructor", operator: "is_set" })).toEqual([]);
    expect(
      await found(
        { key: "plan", operator: "is_set" },
        { key: "seats", operator: "between", value: [1, 5] },
      ),
    ).toEqual(["2"]);
    const { body } = await list({ ...filter({ key: "plan", operator: "is_set" }), limit: "1" });
    expect(body.count).toBeNull();
    expect(body.next).not.toBeNull();
  });

  it("[EV-4] gives up a search whose patterns take too long", async () => {
    const text = `${"a".repeat(40)}b`;
    await api.capture(
      Array.from({ length: 400 }, (_, index) => withProperties("e", { text: `${text}${index}` })),
    );
    const evil = { key: "text", operator: "regex", value: "^(?=(a+)+$)" };
    expect(await list(filter(evil))).toEqual(refusal("properties"));
  });

  it.each([
    ["properties", "that is not JSON", "{"],
    ["properties", "that is not a list", '{"key":"a"}'],
    ["properties", "of something else than filters", '["a"]'],
    ["properties", "without a key", '[{"value":1}]'],
    ["properties", "with an unknown operator", '[{"key":"a","value":1,"operator":"nope"}]'],
    [
      "properties",
      "with an inherited operator",
      '[{"key":"a","value":1,"operator":"constructor"}]',
    ],
    ["properties", "without a value", '[{"key":"a"}]'],
    ["properties", "with a broken pattern", '[{"key":"a","operator":"regex","value":"("}]'],
    ["properties", "with bounds out of order", '[{"key":"a","operator":"between","value":[2,1]}]'],
    ["properties", "of another type", '[{"key":"a","value":1,"type":"cohort"}]'],
    ["properties", "nested too deep", "[".repeat(10_000)],
    ["properties", "of too many filters", JSON.stringify(Array(101).fill({ key: "a", value: 1 }))],
    ["after", "that is no time", "yesterday"],
    ["before", "that does not exist", "2026-02-30"],
    ["person_id", "that is no UUID", "7"],
    ["orderBy", "of another field", '["event"]'],
    ["orderBy", "that is not JSON", "["],
    ["order", "of another field", "distinct_id"],
  ])("[EV-5] refuses %s %s by name", async (name, _what, text) => {
    expect(await list({ [name]: text })).toEqual(refusal(name));
  });

  it("[EV-5] takes any text as an event name or id", async () => {
    await api.capture([event("a\ufffdb", { distinctId: "'; drop table events; --" })]);
    expect(await names({ event: "a\u0000b" })).toEqual(["a\ufffdb"]);
    expect(await names({ distinct_id: "'; drop table events; --" })).toEqual(["a\ufffdb"]);
    expect((await api.get(`${path}?event=%ff`)).status).toBe(200);
    expect((await api.get(`${path}?event=a&event=a%00b`)).body.count).toBe(1);
  });

  it("[EV-6] waits for events that were acknowledged before it was asked", async () => {
    const first = event("first");
    await api.log.append([first]);
    const listed = names();
    const read = api.get(`${path}/${first.uuid}`);
    await api.store();
    expect(await listed).toEqual(["first"]);
    expect((await read).body.event).toBe("first");
  });
});

describe("reading an event", () => {
  it("[EV-7] finds it by uuid, whatever its case, in its project only", async () => {
    const captured = event("one");
    await api.capture([captured, event("two")]);
    const { status, body } = await api.get(`${path}/${captured.uuid}/`);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      id: captured.uuid,
      event: "one",
      person: { distinct_ids: ["user-1"] },
    });
    expect((await api.get(`${path}/${captured.uuid.toUpperCase()}`)).body).toEqual(body);
    const other = await api.newProject();
    expect((await api.get(`/api/projects/${other}/events/${captured.uuid}`)).status).toBe(404);
  });

  it.each([crypto.randomUUID(), "nonsense", "0", "%00"])(
    "[EV-7] answers 404 for %s",
    async (uuid) => {
      expect(await api.get(`${path}/${uuid}`)).toEqual({
        status: 404,
        body: { type: "invalid_request", code: "not_found", detail: "Not found.", attr: null },
      });
    },
  );
});
