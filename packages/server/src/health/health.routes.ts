import type { Registry } from "prom-client";
import { Type } from "typebox";
import type { App } from "../http/app.ts";

const tags = ["health"];

/** Probes and metrics for whoever operates the process. */
export function healthRoutes(
  app: App,
  deps: {
    /** What is not ready, in words; empty when requests can be served. */
    readonly unready: () => Promise<readonly string[]>;
    readonly metrics: Registry;
  },
): void {
  app.get(
    "/_liveness",
    { schema: { tags, summary: "Whether the process runs", response: { 200: Type.String() } } },
    async () => "ok",
  );
  app.get(
    "/_readiness",
    {
      schema: {
        tags,
        summary: "Whether requests can be served",
        response: { 200: Type.String(), 503: Type.String() },
      },
    },
    async (_request, reply) => {
      const reasons = await deps.unready();
      return reasons.length === 0 ? "ok" : reply.code(503).send(reasons.join("\n"));
    },
  );
  app.get(
    "/metrics",
    {
      schema: {
        tags,
        summary: "Metrics in Prometheus' text format",
        response: { 200: Type.String() },
      },
    },
    async (_request, reply) => {
      reply.header("content-type", deps.metrics.contentType);
      return deps.metrics.metrics();
    },
  );
}
