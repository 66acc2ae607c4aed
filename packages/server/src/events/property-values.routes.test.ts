import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JsonObject } from "@hedgerow/core/json";
import pino from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openDuckDbEvents } from "../engines/duckdb-events/duckdb-events.ts";
import { createApp } from "../http/app.ts";
import { managementApi } from "../http/management-api.ts";
import { sampleRow } from "./event-store.contract.ts";
import type { EventStore } from "./event-store.ts";
import { propertyValuesRoutes } from "./property-values.routes.ts";
import { createPropertyValues } from "./property-values.ts";

const NOW = new Date("2026-03-10T10:00:00Z");
const folder = mkdtempSync(join(tmpdir(), "hedgerow-values-"));
const app = createApp({ logger: pino({ level: "silent" }) });
let events: EventStore;

beforeAll(async () => {
  events = await openDuckDbEvents(join(folder, "events.duckdb"));
  let position = 0;
  const row = (event: string, properties: JsonObject, timestamp = NOW, projectId = 1) =>
    sampleRow(++position, { event, properties, timestamp, projectId });
  const rows = [
    row("paid", { plan: "Pro", seats: 3, tags: ["a", "b"], trial: false }),
    row("paid", { plan: "Pro", seats: 3, tags: ["b"], nothing: null }),
    row("left", { plan: "free", seats: 12 }),
    row("left", { plan: "old" }, new Date("2026-03-01T10:00:00Z")),
    row("paid", { plan: "elsewhere" }, NOW, 2),
    ...Array.from({ length: 12 }, (_, index) => row("many", { number: index })),
  ];
  const batch = { rows, merges: [], drops: [], deadLetters: [], end: position };
  await events.insert(batch);
  const log = { end: async () => position, lanes: { passed: () => undefined } };
  managementApi(
    app,
    async () => ({ project: { id: 1 }, user: {}, key: {}, memberships: [] }) as never,
    (management) =>
      propertyValuesRoutes(management, createPropertyValues({ events, log, clock: () => NOW })),
  );
  await app.ready();
});
afterAll(async () => {
  await app.close();
  await events.close();
  rmSync(folder, { recursive: true, force: true });
});

const ask = async (query: string) => {
  const answer = await app.inject({ url: `/api/projects/1/events/values?${query}` });
  return { status: answer.statusCode, body: answer.json() };
};
const values = async (query: string) => {
  const { status, body } = await ask(query);
  if (status !== 200) throw new Error(JSON.stringify(body));
  return (body as { name: unknown }[]).map(({ name }) => name);
};

test("[EV-8] values of a property in the last days come with the commonest first", async () => {
  expect((await ask("key=plan")).body).toEqual([{ name: "Pro" }, { name: "free" }]);
  expect(await values("key=seats")).toEqual([3, 12]);
  expect(await values("key=trial")).toEqual([false]);
  expect(await values("key=tags")).toEqual(["b", "a"]);
  expect(await values("key=nothing")).toEqual([]);
  expect(await values("key=constructor")).toEqual([]);
  expect(await values("key=number")).toHaveLength(10);
});

test("[EV-8] they are searched, of all events or of some", async () => {
  expect(await values("key=plan&value=PR")).toEqual(["Pro"]);
  expect(await values("key=seats&value=2")).toEqual([12]);
  expect(await values("key=plan&event_name=left")).toEqual(["free"]);
  expect(await values("key=plan&event_name=left&event_name=paid")).toEqual(["Pro", "free"]);
  expect(await values("key=plan&event_name=none")).toEqual([]);
  expect(await ask("value=x")).toMatchObject({ status: 400, body: { attr: "key" } });
  const many = Array.from({ length: 11 }, (_, index) => `event_name=e${index}`).join("&");
  expect(await ask(`key=plan&${many}`)).toMatchObject({
    status: 400,
    body: { attr: "event_name" },
  });
});
