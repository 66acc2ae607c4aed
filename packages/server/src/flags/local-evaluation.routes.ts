import type { FastifyReply, FastifyRequest } from "fastify";
import type { Project } from "../accounts/account-store.ts";
import type { App } from "../http/app.ts";
import { coversTag } from "../http/entity-tag.ts";
import { DEFINITIONS_SECURITY } from "../http/public-api.ts";
import type { CompiledFlags } from "./compiled-flags.ts";
import { LocalDefinitionsAnswer, LocalDefinitionsParameters } from "./local-evaluation.schemas.ts";
import type { LocalDefinitionsOf } from "./local-evaluation.ts";

/** The path of current SDKs, then the one of older ones, alone and under a project. */
const CURRENT_PATH = "/flags/definitions";
const PATHS = [
  CURRENT_PATH,
  "/api/feature_flag/local_evaluation",
  "/api/projects/:project_id/feature_flags/local_evaluation",
] as const;

/**
 * Definitions for SDKs that evaluate flags themselves (posthog-api 4.6): part of the public API, for
 * holders of a personal key or the project's secret key.
 */
export function localEvaluationRoutes(
  app: App,
  {
    authenticateForDefinitions,
    compiledFlags,
    localDefinitionsOf,
  }: {
    /** The project a request may read the definitions of; throws a 401, 403 or 404 refusal. */
    authenticateForDefinitions: (request: FastifyRequest) => Promise<Project>;
    compiledFlags: Pick<CompiledFlags, "get">;
    localDefinitionsOf: LocalDefinitionsOf;
  },
): void {
  const answer = async (request: FastifyRequest, reply: FastifyReply) => {
    const project = await authenticateForDefinitions(request);
    const snapshot = await compiledFlags.get(project.id);
    // A flag of presence: its value, even "false", says nothing.
    const sendCohorts = Object.hasOwn(request.query as object, "send_cohorts");
    const forOlderSdks = request.routeOptions.url !== CURRENT_PATH;
    const { etag, body } = localDefinitionsOf(project.id, snapshot, { sendCohorts, forOlderSdks });
    reply
      .header("etag", etag)
      .header("cache-control", "private, must-revalidate")
      .header("access-control-expose-headers", "ETag");
    if (coversTag(request.headers["if-none-match"], etag)) return reply.code(304).send();
    return reply.type("application/json; charset=utf-8").send(body);
  };
  for (const path of PATHS) {
    // Before the route itself, whose preflight would otherwise be answered as for other routes.
    app.options(path, { schema: { hide: true } }, async (_request, reply) =>
      reply.code(204).send(),
    );
    app.get(
      path,
      {
        schema: {
          tags: ["local_evaluation"],
          summary: "Flag definitions for local evaluation",
          security: DEFINITIONS_SECURITY,
          querystring: LocalDefinitionsParameters,
          response: { 200: LocalDefinitionsAnswer },
        },
      },
      answer,
    );
  }
}
