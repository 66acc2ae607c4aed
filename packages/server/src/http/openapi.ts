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
      servers: [{ url: "/", description: "The service itself" }],
      components: {
        securitySchemes: {
          personalKey: { type: "http", scheme: "bearer", description: "A personal key, `phx_…`." },
          secretKey: {
            type: "http",
            scheme: "bearer",
            description: "The secret key of a project, `phs_…`, for servers that decide flags.",
          },
        },
      },
    },
    hideUntagged: false,
  });
}

/** The API description as text; the application must be ready. */
export function describeApi(app: App): string {
  const described = app.swagger();
  const paths = (described.paths ?? {}) as Record<string, Record<string, object>>;
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const operationId = operationIdOf(method, path);
      // Whoever has no key of their own, or tells it in the body, may ask all the same.
      operations[method] = { operationId, security: [], ...operation };
    }
  }
  return `${JSON.stringify(foldSchemas(described), null, 2)}\n`;
}

/** `get /api/flags/{id}` is `getFlagsById`: unique, since it says all of the path but `api`. */
function operationIdOf(method: string, path: string): string {
  const words = path
    .replace(/^\/api\//, "/")
    .replace(/\{/g, "by/")
    .match(/[A-Za-z0-9]+/g);
  const capitalized = (words ?? []).map((word) => word.charAt(0).toUpperCase() + word.slice(1));
  return `${method}${capitalized.join("")}`;
}
