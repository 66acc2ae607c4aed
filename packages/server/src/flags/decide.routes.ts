import { isJsonObject, type Json } from "@hedgerow/core/json";
import { type TSchema, Type } from "typebox";
import type { Project } from "../accounts/account-store.ts";
import { type ProjectsByToken, requireProject } from "../accounts/projects-by-token.ts";
import type { App } from "../http/app.ts";
import { type DecodedBody, decodeSmallBody, encodedBodyOf } from "../http/decode-body.ts";
import type { PlainHandler, PlainRequest } from "../http/front-door.ts";
import type { LargeBodies } from "../http/large-bodies.ts";
import { postPlain } from "../http/public-api.ts";
import { queryText } from "../http/query-text.ts";
import { createAnswerBuffers } from "./answer-buffers.ts";
import { type DecideDeps, decide } from "./decide.ts";
import {
  type AnswerFormat,
  decideShape,
  flagsShape,
  writeFlagAnswer,
} from "./flag-answer.schemas.ts";
import { parseFlagRequest } from "./flag-request.schemas.ts";

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
  deps: DecideDeps & { readonly projects: ProjectsByToken; readonly largeBodies: LargeBodies },
): void {
  const lend = createAnswerBuffers();

  // No async function on the way: where nothing is waited for, the answer needs no other turn.
  function answer(request: PlainRequest, format: AnswerFormat): ReturnType<PlainHandler> {
    const body = encodedBodyOf(request);
    const decoded = decodeSmallBody(body, "malformed_data");
    return decoded === "large"
      ? deps.largeBodies.open(body, (one) => answerDecoded(request, one, format), {
          as: "malformed_data",
        })
      : answerDecoded(request, decoded, format);
  }

  function answerDecoded(
    request: PlainRequest,
    { value, form }: DecodedBody,
    format: AnswerFormat,
  ): ReturnType<PlainHandler> {
    const { query } = request;
    const flagRequest = parseFlagRequest(withFormToken(value ?? null, form), [
      queryText(query, "token"),
      queryText(query, "api_key"),
    ]);
    const onlySurveyFlags = isYes(queryText(query, "only_evaluate_survey_feature_flags"));
    const decideFor = (project: Project) =>
      decide(deps, { project, request: flagRequest, caller: request, onlySurveyFlags });
    const project = requireProject(deps.projects, flagRequest.token);
    const decided = project instanceof Promise ? project.then(decideFor) : decideFor(project);
    return decided instanceof Promise
      ? decided.then((one) => writeFlagAnswer(one, format, lend))
      : writeFlagAnswer(decided, format, lend);
  }

  const schema = (summary: string): { tags: string[]; summary: string; querystring: TSchema } => ({
    tags,
    summary,
    querystring: FlagQuery,
  });

  postPlain(app, "/decide", {
    schema: schema("Evaluate flags for one person"),
    handler: (request) => {
      const shape = decideShape(queryText(request.query, "v"));
      return answer(request, { shape, withSettings: true });
    },
  });

  postPlain(app, "/flags", {
    schema: schema("Evaluate flags for one person"),
    handler: (request) => {
      const { query } = request;
      const asked = queryText(query, "v") ?? queryText(query, "version");
      const config = queryText(query, "config");
      return answer(request, {
        shape: flagsShape(asked),
        // Neither a version nor a wish about settings: the caller gets everything (posthog-api 8.6).
        withSettings: isYes(config) || (asked === undefined && config === undefined),
      });
    },
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
