import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { composeService } from "../compose.ts";
import { readConfig } from "../config.ts";

const KEY = "phx_experiments_service";
const TOKEN = "phc_experiments_service";
export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** A whole service with one project, and what tests of experiments do with it. */
export async function openExperimentsService() {
  const data = mkdtempSync(join(tmpdir(), "hedgerow-experiments-"));
  const service = await composeService(
    readConfig(["--data", data], { HEDGEROW_PERSONAL_KEY: KEY, HEDGEROW_PROJECT_KEY: TOKEN }),
    pino({ level: "silent" }),
  );
  const send = async (
    method: "GET" | "POST" | "PATCH" | "DELETE",
    path: string,
    payload?: object | string,
  ) => {
    const response = await service.app.inject({
      method,
      url: path.startsWith("/") ? path : `/api/projects/1/${path}`,
      headers: {
        authorization: `Bearer ${KEY}`,
        ...(typeof payload === "string" && { "content-type": "application/json" }),
      },
      ...(payload && { payload }),
    });
    const isJson = String(response.headers["content-type"]).startsWith("application/json");
    return {
      status: response.statusCode,
      headers: response.headers,
      body: isJson && response.body !== "" ? response.json() : response.body,
    };
  };
  const done = async (
    method: "GET" | "POST" | "PATCH" | "DELETE",
    path: string,
    payload?: object,
  ) => {
    const { status, body } = await send(method, path, payload);
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(body)}`);
    return body;
  };
  const capture = async (batch: readonly object[]) => {
    for (let from = 0; from < batch.length; from += 1000) {
      const response = await service.app.inject({
        method: "POST",
        url: "/batch",
        payload: { api_key: TOKEN, batch: batch.slice(from, from + 1000) },
      });
      if (response.statusCode !== 200) throw new Error(response.body);
    }
  };
  return {
    send,
    done,
    capture,
    /** Asks a query that must be answered. */
    query: (asked: object) => done("POST", "query", { query: asked }),
    close: async () => {
      await service.close();
      rmSync(data, { recursive: true, force: true });
    },
  };
}

/** An event of a user at a time. */
export function happen(event: string, user: string, at: number, properties: object = {}) {
  return { event, distinct_id: user, timestamp: new Date(at).toISOString(), properties };
}

/** A call of a flag that was answered a variant. */
export function called(
  flag: string,
  variant: string,
  user: string,
  at: number,
  properties: object = {},
) {
  return happen("$feature_flag_called", user, at, {
    $feature_flag: flag,
    $feature_flag_response: variant,
    ...properties,
  });
}

/** Numbers from a text: those of one begin are `prefix0`, `prefix1` and so on. */
export function users(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`);
}
