import type { FastifyRequest } from "fastify";
import type { App } from "../http/app.ts";
import { access, projectOf } from "../http/management-api.ts";
import { pathIdOf } from "../http/path-id.ts";
import {
  ExplainBody,
  ExplainParameters,
  Explanation,
  explainedPersonOf,
  explainedPersonOfQuery,
  wireExplanation,
} from "./explain.schemas.ts";
import type { Explain, ExplainedPerson } from "./explain.ts";

const EXPLAIN = "/api/projects/:project_id/feature_flags/:id/explain";
const tags = ["feature_flags"];

/** Why a flag has its value for a person: by GET as things are stored, by POST with overrides. */
export function explainRoutes(app: App, { explain }: { explain: Explain }): void {
  const answer = async (request: FastifyRequest, person: ExplainedPerson) => {
    const told = await explain(projectOf(request).id, pathIdOf(request), person);
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
      ...access("feature_flag:read"),
      schema: {
        tags,
        summary: "Explain a flag's value for a person, with properties that win over stored ones",
        body: ExplainBody,
        response: { 200: Explanation },
      },
    },
    (request) => answer(request, explainedPersonOf(request.body)),
  );
}
