import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { Project } from "../accounts/account-store.ts";
import { type ProjectsByToken, requireProject } from "../accounts/projects-by-token.ts";
import { CLIENT_SETTINGS } from "../flags/flag-answer.schemas.ts";
import type { EarlyAccessEntry } from "../flags/flag-enrolment.ts";
import type { App } from "../http/app.ts";
import { coversTag } from "../http/entity-tag.ts";
import { Refusal } from "../http/errors.ts";
import { queryText } from "../http/query-text.ts";
import type { SdkScripts } from "./sdk-scripts.ts";

const tags = ["sdk"];
const SCRIPT_TYPE = "application/javascript; charset=utf-8";

/**
 * What a browser SDK loads before it evaluates flags: its scripts, the settings of its project, and
 * the lists it asks for on its own account (posthog-api 8.11, 8.12).
 */
export function sdkRoutes(
  app: App,
  deps: {
    readonly projects: ProjectsByToken;
    readonly scripts: SdkScripts;
    readonly earlyAccessFeatures: (project: Project) => Promise<readonly EarlyAccessEntry[]>;
  },
): void {
  const { projects, scripts } = deps;

  async function projectNamed(token: string | undefined): Promise<Project> {
    if (!token) {
      throw new Refusal(
        "missing_api_key",
        "API key not provided. You can find your project API key in PostHog project settings.",
      );
    }
    return requireProject(projects, token);
  }

  async function remoteConfig(token: string) {
    const project = await projects.find(token);
    if (!project) throw new Refusal("not_found", "Invalid token.");
    return {
      token,
      ...CLIENT_SETTINGS,
      // Always: a page loaded before the first flag exists would never ask again.
      hasFeatureFlags: true,
      errorTracking: { autocaptureExceptions: false, suppressionRules: [] },
    };
  }

  const tokenParam = Type.Object({ token: Type.String() });

  app.get(
    "/array/:token/config",
    { schema: { tags, summary: "Settings of a browser SDK", params: tokenParam } },
    async (request, reply) => {
      reply.header("cache-control", "no-cache");
      return remoteConfig(request.params.token);
    },
  );

  app.get(
    "/array/:token/config.js",
    { schema: { tags, summary: "Settings of a browser SDK, as a script", params: tokenParam } },
    async (request, reply) => {
      const config = await remoteConfig(request.params.token);
      reply.header("cache-control", "no-cache").type(SCRIPT_TYPE);
      return configScript(request.params.token, config);
    },
  );

  app.get(
    "/array/:token/array.js",
    { schema: { tags, summary: "The browser SDK with its settings", params: tokenParam } },
    async (request, reply) => {
      const config = await remoteConfig(request.params.token);
      const sdk = await scripts.script("array.js");
      if (!sdk) throw new Refusal("not_found", "Not found.");
      reply.header("cache-control", "no-cache").type(SCRIPT_TYPE);
      return `${sdk.source.toString("utf8")}\n${configScript(request.params.token, config)}`;
    },
  );

  const serveScript = async (request: FastifyRequest, reply: FastifyReply) => {
    const script = await scripts.script((request.params as { name: string }).name);
    if (!script) throw new Refusal("not_found", "Not found.");
    reply
      .header("etag", script.etag)
      .header("cache-control", "public, max-age=3600")
      .type(SCRIPT_TYPE);
    return coversTag(request.headers["if-none-match"], script.etag)
      ? reply.code(304).send()
      : reply.send(script.source);
  };
  const nameParam = Type.Object({ name: Type.String() });
  app.get(
    "/static/:name",
    { schema: { tags, summary: "A script of the browser SDK", params: nameParam } },
    serveScript,
  );
  app.get(
    "/static/:version/:name",
    {
      schema: {
        tags,
        summary: "A script of the browser SDK, asked for by version",
        params: Type.Object({ version: Type.String(), name: Type.String() }),
      },
    },
    serveScript,
  );

  const listQuery = Type.Object({ token: Type.Optional(Type.String()) });
  const list = (url: string, summary: string, read: (project: Project) => Promise<object>) => {
    const answer = async (request: FastifyRequest) => {
      const token = queryText(request.query, "token") ?? queryText(request.query, "api_key");
      return read(await projectNamed(token));
    };
    app.get(url, { schema: { tags, summary, querystring: listQuery } }, answer);
  };
  list("/api/early_access_features", "Features that people can enrol in", async (project) => ({
    earlyAccessFeatures: await deps.earlyAccessFeatures(project),
  }));
  // Hedgerow has no surveys, web experiments or product tours: there are none to list.
  list("/api/surveys", "Surveys (none)", async () => ({ surveys: [] }));
  list("/api/web_experiments", "No-code experiments (none)", async () => ({ experiments: [] }));
  list("/api/product_tours", "Product tours (none)", async () => ({ product_tours: [] }));
}

/** `<` is escaped so that the script may be inlined into a page. */
function configScript(token: string, config: object): string {
  const text = (value: unknown) => JSON.stringify(value).replaceAll("<", "\\u003c");
  return `(function() {
  window._POSTHOG_REMOTE_CONFIG = window._POSTHOG_REMOTE_CONFIG || {};
  window._POSTHOG_REMOTE_CONFIG[${text(token)}] = {
    config: ${text(config)},
    siteApps: []
  };
})();
`;
}
