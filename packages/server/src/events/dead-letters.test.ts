import pino from "pino";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { createApp } from "../http/app.ts";
import { managementApi } from "../http/management-api.ts";
import { deadLetterRoutes } from "./dead-letters.routes.ts";
import { createDeadLetters } from "./dead-letters.ts";
import { sampleEvent } from "./event-log.contract.ts";
import { LogUnavailable } from "./event-log.ts";
import { temporaryPipeline } from "./pipeline.setup.ts";
import { eventStep } from "./steps/step.ts";

describe("dead letters", () => {
  const pipeline = temporaryPipeline();
  let isBroken: boolean;
  let run: Awaited<ReturnType<typeof pipeline.start>>;
  let projectId: number;
  beforeEach(async () => {
    isBroken = true;
    run = await pipeline.start({
      steps: [
        eventStep({
          name: "fragile",
          run: ({ event }) => {
            if (isBroken && event.event.startsWith("bad")) throw new Error("broken");
            return { kind: "keep", event };
          },
        }),
      ],
    });
    projectId = await run.newProject();
  });
  afterEach(() => pipeline.stopWorker());
  afterAll(() => pipeline.remove());

  async function capture(...names: string[]) {
    const events = names.map((event, index) =>
      sampleEvent({ projectId, event, timestamp: new Date(1e12 + index) }),
    );
    await run.append(events);
    await run.settle();
    return events;
  }
  async function stored() {
    const query = { projectId, limit: 100, offset: 0, order: "oldest-first" } as const;
    return (await run.events.events(query)).events.map(({ event }) => event);
  }

  async function openApi() {
    const app = createApp({ logger: pino({ level: "silent" }) });
    managementApi(
      app,
      async () => ({ project: { id: projectId }, user: {}, key: {}, memberships: [] }) as never,
      (management) => deadLetterRoutes(management, createDeadLetters(run)),
    );
    await app.ready();
    return async (method: "GET" | "POST", path = "", payload?: object) => {
      const url = `/api/projects/${projectId}/dead_letters${path}`;
      const response = await app.inject({ method, url, ...(payload && { payload }) });
      return { status: response.statusCode, body: JSON.parse(response.body) };
    };
  }

  it("[PI-56] are listed in pages, with event and reason, for their project only", async () => {
    const [first] = await capture("bad 1", "good", "bad 2", "bad 3");
    await run.append([sampleEvent({ projectId: projectId + 1000, event: "bad elsewhere" })]);
    await run.settle();
    const ask = await openApi();
    const page = await ask("GET", "?limit=2");
    expect(page.status).toBe(200);
    expect(page.body.results).toMatchObject([
      { uuid: first?.uuid, event: "bad 1", reason: "step fragile failed: broken" },
      { event: "bad 2" },
    ]);
    expect(page.body.results[0].properties).toEqual(first?.properties);
    const { pathname, search } = new URL(page.body.next);
    const rest = await ask("GET", search);
    expect(pathname).toBe(`/api/projects/${projectId}/dead_letters`);
    expect(rest.body.results.map(({ event }: { event: string }) => event)).toEqual(["bad 3"]);
    expect(rest.body.next).toBeNull();
  });

  it("[PI-57] are captured once more and removed, those named or all; what fails again is a new letter", async () => {
    const [one, two] = await capture("bad 1", "bad 2", "bad 3");
    const ask = await openApi();
    const ids = [one?.uuid, "00000000-0000-4000-8000-000000000000", 999_999_999];
    expect(await ask("POST", "/replay", { ids: [...ids, "nonsense"] })).toMatchObject({
      status: 400,
      body: { attr: "ids" },
    });
    const again = await ask("POST", "/replay", { ids });
    expect(again.body).toEqual({ replayed: 1, unknown: ids.slice(1) });
    await run.settle();
    const letters = await run.events.deadLetters({ projectId, limit: 10 });
    expect(letters.map(({ event }) => event.event)).toEqual(["bad 2", "bad 3", "bad 1"]);
    isBroken = false;
    const position = letters.find(({ event }) => event.uuid === two?.uuid)?.position;
    expect((await ask("POST", "/replay", { ids: [position] })).body.replayed).toBe(1);
    await run.settle();
    expect(await stored()).toEqual(["bad 2"]);
    expect((await ask("POST", "/replay", {})).body).toEqual({ replayed: 2, unknown: [] });
    await run.settle();
    expect(await stored()).toEqual(["bad 1", "bad 2", "bad 3"]);
    expect(await run.events.deadLetters({ projectId, limit: 10 })).toEqual([]);
    expect(await run.events.receipt(projectId, two?.uuid ?? "")).toMatchObject({
      outcome: "stored",
    });
  });

  it("[PI-57] are stored once when a replay dies between capturing and removing, and stay when nothing can be captured", async () => {
    await capture("bad 1");
    const full = createDeadLetters({
      ...run,
      append: async () => {
        throw new LogUnavailable("full", { retryAfterSeconds: 1 });
      },
    });
    await expect(full.replay("all", projectId)).rejects.toMatchObject({ code: "unavailable" });
    isBroken = false;
    const dying = createDeadLetters({
      ...run,
      events: {
        deadLetters: (query) => run.events.deadLetters(query),
        deadLetter: (position) => run.events.deadLetter(position),
        removeDeadLetters: async () => {
          throw new Error("dies here");
        },
      },
    });
    await expect(dying.replay("all", projectId)).rejects.toThrow("dies here");
    await run.settle();
    expect(await createDeadLetters(run).replay("all", projectId)).toMatchObject({ replayed: 1 });
    await run.settle();
    expect(await stored()).toEqual(["bad 1"]);
    expect(await run.events.deadLetters({ projectId, limit: 10 })).toEqual([]);
  });
});
