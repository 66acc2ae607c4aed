import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JsonObject } from "@hedgerow/core/json";
import { pino } from "pino";
import { composeService } from "../compose.ts";
import { readConfig } from "../config.ts";

/** An answer with its body read; `undefined` where there is none. */
export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  readonly body: any;
}

/** Whatever is left out of an event gets a default. */
export interface SentEvent {
  readonly event?: string;
  readonly distinct_id: string;
  readonly properties?: JsonObject;
  readonly timestamp?: string;
}

/** The whole service without its socket, on a folder of its own, as clients use it. */
export async function openComposedService(
  options: readonly string[] = [],
  folder = mkdtempSync(join(tmpdir(), "hedgerow-composed-")),
) {
  const config = readConfig(["--data", folder, ...options], {});
  const service = await composeService(config, pino({ level: "silent" }));
  await service.app.ready();
  const { firstBoot } = service;
  if (!firstBoot) throw new Error("a new folder has a first boot");
  const key = firstBoot.personalKey;

  async function send(
    method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE",
    url: string,
    payload?: unknown,
    headers: Readonly<Record<string, string>> = { authorization: `Bearer ${key}` },
  ): Promise<Answer> {
    const { statusCode, payload: text } = await service.app.inject({
      method,
      url,
      headers: { ...headers, ...(payload !== undefined && { "content-type": "application/json" }) },
      ...(payload !== undefined && { payload: JSON.stringify(payload) }),
    });
    return { status: statusCode, body: text === "" ? undefined : JSON.parse(text) };
  }

  return {
    folder,
    service,
    send,

    /** A project of its own, with calls below its path and with its key. */
    async newProject() {
      const created = await send("POST", "/api/projects", { name: randomUUID() });
      if (created.status !== 201) throw new Error(JSON.stringify(created.body));
      const { id, api_token: token } = created.body as { id: number; api_token: string };
      const path = `/api/projects/${id}`;

      async function capture(...events: readonly SentEvent[]): Promise<void> {
        const batch = events.map((event) => ({ event: "seen", uuid: randomUUID(), ...event }));
        const answer = await send("POST", "/batch", { api_key: token, batch }, {});
        if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
      }

      return {
        id,
        token,
        path,
        capture,
        get: (rest: string) => send("GET", `${path}/${rest}`),
        call: (method: Parameters<typeof send>[0], rest: string, body?: unknown) =>
          send(method, `${path}/${rest}`, body),
        identify: (distinctId: string, anonymousId: string) =>
          capture({
            event: "$identify",
            distinct_id: distinctId,
            properties: { $anon_distinct_id: anonymousId },
          }),
        /** What the flags are for an id. */
        async flags(distinctId: string, more: JsonObject = {}): Promise<Record<string, unknown>> {
          const request = { token, distinct_id: distinctId, ...more };
          const { body } = await send("POST", "/flags/?v=1", request, {});
          return body.featureFlags;
        },
        async createFlag(key: string, filters: JsonObject): Promise<void> {
          const answer = await send("POST", `${path}/feature_flags`, { key, filters });
          if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
        },
        /** The person who has an id; fails where nobody does. */
        async personOf(distinctId: string) {
          const query = new URLSearchParams({ distinct_id: distinctId });
          const { body } = await send("GET", `${path}/persons?${query}`);
          const [person] = body.results;
          if (!person) throw new Error(`nobody has ${distinctId}`);
          return person as {
            readonly id: number;
            readonly uuid: string;
            readonly distinct_ids: readonly string[];
            readonly properties: JsonObject;
          };
        },
        /** Names of the stored events of a query, oldest first. */
        async eventNames(query: Readonly<Record<string, string>> = {}): Promise<string[]> {
          const parameters = new URLSearchParams({
            limit: "1000",
            orderBy: '["timestamp"]',
            ...query,
          });
          const { body } = await send("GET", `${path}/events?${parameters}`);
          return body.results.map((event: { event: string }) => event.event);
        },
      };
    },

    async close() {
      await service.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export type ComposedProject = Awaited<
  ReturnType<Awaited<ReturnType<typeof openComposedService>>["newProject"]>
>;
