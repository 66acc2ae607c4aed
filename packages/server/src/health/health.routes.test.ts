import { pino } from "pino";
import { Registry } from "prom-client";
import { afterAll, expect, test } from "vitest";
import { createApp } from "../http/app.ts";
import { publicApi } from "../http/public-api.ts";
import { healthRoutes } from "./health.routes.ts";

let reasons: readonly string[] = [];
const app = createApp({ logger: pino({ level: "silent" }) });
publicApi(app, (open) =>
  healthRoutes(open, { unready: async () => reasons, metrics: new Registry() }),
);
afterAll(() => app.close());

test("readiness is refused with what is missing, while the process is alive all the same", async () => {
  expect((await app.inject("/_readiness")).statusCode).toBe(200);
  reasons = ["the metadata database does not answer"];
  const answer = await app.inject("/_readiness");
  expect([answer.statusCode, answer.body]).toEqual([503, "the metadata database does not answer"]);
  expect((await app.inject("/_liveness")).statusCode).toBe(200);
});
