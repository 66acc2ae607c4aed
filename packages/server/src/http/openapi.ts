import fastifySwagger from "@fastify/swagger";
import type { App } from "./app.ts";
import { foldSchemas } from "./fold-schemas.ts";

/**
 * Collects the schemas of all routes registered from now on, so that {@link describeApi} can write
 * openapi.json. A running service does without: collecting costs time at every start.
 */
export function collectSchemas(app: App): void {
  app.register(fastifySwagger, {
    openapi: {
      openapi: "3.1.0",
      info: {
        title: "Hedgerow",
        version: "0.1.0",
        description: "Feature flags, experiments and event capture, speaking PostHog's HTTP API.",
      },
      components: {
        securitySchemes: {
          personalKey: { type: "http", scheme: "bearer", description: "A personal key, `phx_…`." },
        },
      },
    },
    hideUntagged: false,
  });
}

/** The API description as text; the application must be ready. */
export function describeApi(app: App): string {
  return `${JSON.stringify(foldSchemas(app.swagger()), null, 2)}\n`;
}
