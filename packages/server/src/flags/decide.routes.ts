import { isJsonObject, type Json } from "@hedgerow/core/json";
import type { FastifyReply, FastifyRequest } from "fastify";
import { type TSchema, Type } from "typebox";
import { type ProjectsByToken, requireProject } from "../accounts/projects-by-token.ts";
import type { App } from "../http/app.ts";
import { geoAddressOf } from "../http/client-address.ts";
import { decodeBody, encodedBodyOf } from "../http/decode-body.ts";
import { queryText } from "../http/query-text.ts";
import { type DecideDeps, decide } from "./decide.ts";
import { parseFlagRequest } from "./decide-request.ts";
import { detectRuntime } from "./detect-runtime.ts";
import { type AnswerShape, decideShape, flagsShape, writeFlagAnswer } from "./flag-answer.ts";

const tags = ["flags"];

const FlagQuery = Type.Object({
  v: Type.Optional(Type.String({ description: "Version of the answer." })),
  config: Type.Optional(Type.String({ description: "`true` adds the client settings." })),
  only_evaluate_survey_feature_flags: Type.Optional(Type.String()),
  compression: Type.Optional(Type.String({ description: "gzip, gzip-js, lz64 or base64." })),
});

/** `POST /decide` and `POST /flags`: what SDKs ask for the flags of one person (interface 4.4). */
export function decideRoutes(
  app: App,
  deps: DecideDeps & { readonly projects: ProjectsByToken },
): void {
  async function answer(
    request: FastifyRequest,
    reply: FastifyReply,
    { shape, withSettings }: { shape: AnswerShape; withSettings: boolean },
  ): Promise<string> {
    const { query } = request;
    const { value, form } = decodeBody(encodedBodyOf(request));
    const flagRequest = parseFlagRequest(withFormToken(value ?? null, form), [
      queryText(query, "token"),
      queryText(query, "api_key"),
    ]);
    const project = requireProject(deps.projects, flagRequest.token);
    const decided = await decide(deps, {
      project: project instanceof Promise ? await project : project,
      request: flagRequest,
      address: geoAddressOf(request),
      runtime: flagRequest.runtime ?? detectRuntime(request.headers),
      onlySurveyFlags: isYes(queryText(query, "only_evaluate_survey_feature_flags")),
    });
    reply.header("content-type", "application/json; charset=utf-8");
    return writeFlagAnswer(decided, shape, withSettings);
  }

  const schema = (summary: string): { tags: string[]; summary: string; querystring: TSchema } => ({
    tags,
    summary,
    querystring: FlagQuery,
  });

  app.post("/decide", { schema: schema("Evaluate flags for one person") }, (request, reply) =>
    answer(request, reply, {
      shape: decideShape(queryText(request.query, "v")),
      withSettings: true,
    }),
  );

  app.post("/flags", { schema: schema("Evaluate flags for one person") }, (request, reply) => {
    const asked = queryText(request.query, "v") ?? queryText(request.query, "version");
    const config = queryText(request.query, "config");
    return answer(request, reply, {
      shape: flagsShape(asked),
      // Neither a version nor a wish about settings: the caller gets everything (posthog-api 8.6).
      withSettings: isYes(config) || (asked === undefined && config === undefined),
    });
  });
}

function isYes(text: string | undefined): boolean {
  return text === "" || text === "1" || text?.toLowerCase() === "true";
}

/** A form may carry the key beside its `data` (posthog-api 8.3). */
function withFormToken(body: Json, form: ReadonlyMap<string, string>): Json {
  const token = form.get("api_key") ?? form.get("token");
  if (token === undefined) return body;
  const fields = Array.isArray(body) ? (body[0] ?? null) : body;
  if (fields === null) return { $token: token };
  return isJsonObject(fields) ? { ...fields, $token: token } : body;
}
