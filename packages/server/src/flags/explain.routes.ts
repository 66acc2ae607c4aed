import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { App } from "../http/app.ts";
import { access, callerOf, mayRead, projectOf } from "../http/management-api.ts";
import type { CompiledFlags } from "./compiled-flags.ts";
import {
  BulkKeys,
  BulkKeysBody,
  BulkKeysRefusal,
  EvaluationReasons,
  ExplainBody,
  ExplainParameters,
  Explanation,
  explainedCaller,
  explainedPersonOf,
  explainedPersonOfQuery,
  MyFlags,
  wireBulkKeys,
  wireExplanation,
  wireMyFlags,
  wireReasons,
} from "./explain.schemas.ts";
import type { EvaluateAll, Explain, ExplainedPerson } from "./explain.ts";

const FLAGS = "/api/projects/:project_id/feature_flags";
const EXPLAIN = `${FLAGS}/:id/explain`;
const tags = ["feature_flags"];

/** Why a flag has its value for a person: by GET as things are stored, by POST with overrides. */
export function explainRoutes(
  app: App,
  {
    explain,
    evaluateAll,
    compiledFlags,
  }: {
    explain: Explain;
    evaluateAll: EvaluateAll;
    compiledFlags: Pick<CompiledFlags, "get">;
  },
): void {
  const answer = async (request: FastifyRequest, person: ExplainedPerson) => {
    const { id } = request.params as { id: string };
    const told = await explain(projectOf(request).id, id, person, {
      persons: mayRead(request, "person:read"),
      groups: mayRead(request, "group:read"),
    });
    return { ...wireExplanation(told.explanation), explanation: told.inWords };
  };
  app.get(
    EXPLAIN,
    {
      ...access("feature_flag:read"),
      schema: {
        tags,
        summary: "Explain a flag's value for a person",
        querystring: ExplainParameters,
        response: { 200: Explanation },
      },
    },
    (request) => answer(request, explainedPersonOfQuery(request.query)),
  );
  app.post(
    EXPLAIN,
    {
      ...access("feature_flag:read", "project", (request) =>
        answer(request, explainedPersonOf({ distinct_id: "" })),
      ),
      schema: {
        tags,
        summary: "Explain a flag's value for a person, with properties that win over stored ones",
        body: ExplainBody,
        response: { 200: Explanation },
      },
    },
    (request) => answer(request, explainedPersonOf(request.body)),
  );

  app.get(
    `${FLAGS}/evaluation_reasons`,
    {
      ...access("feature_flag:read"),
      schema: {
        tags,
        summary: "Value and reason of every flag for a person",
        querystring: ExplainParameters,
        response: { 200: EvaluationReasons },
      },
    },
    async (request) => {
      const { id } = projectOf(request);
      const evaluations = await evaluateAll(id, explainedPersonOfQuery(request.query));
      const { definitions } = await compiledFlags.get(id);
      return wireReasons(definitions.flags, evaluations);
    },
  );

  app.get(
    `${FLAGS}/my_flags`,
    {
      ...access("feature_flag:read"),
      schema: {
        tags,
        summary: "Value of every flag for the caller",
        querystring: Type.Object({ groups: ExplainParameters.properties.groups }),
        response: { 200: MyFlags },
      },
    },
    async (request) => {
      const { id } = projectOf(request);
      const person = explainedCaller(callerOf(request).user.distinctId, request.query);
      const evaluations = await evaluateAll(id, person);
      const { definitions } = await compiledFlags.get(id);
      return wireMyFlags(id, definitions.flags, evaluations);
    },
  );

  app.post(
    `${FLAGS}/bulk_keys`,
    {
      ...access("feature_flag:read"),
      schema: {
        tags,
        summary: "Keys of flags by their ids",
        body: BulkKeysBody,
        response: { 200: BulkKeys, 400: BulkKeysRefusal },
      },
    },
    async (request, reply) => {
      const { definitions } = await compiledFlags.get(projectOf(request).id);
      const answer = wireBulkKeys(request.body.ids ?? [], definitions.flags);
      return "error" in answer ? reply.code(400).send(answer) : reply.code(200).send(answer);
    },
  );
}
