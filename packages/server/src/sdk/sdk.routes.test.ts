import { runInNewContext } from "node:vm";
import { compileFlags } from "@hedgerow/core/flags/compile-flags";
import type { FlagDefinition } from "@hedgerow/core/flags/flag";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Project } from "../accounts/account-store.ts";
import { type App, createApp } from "../http/app.ts";
import { publicApi } from "../http/public-api.ts";
import { earlyAccessFeaturesOf } from "./early-access.ts";
import { sdkRoutes } from "./sdk.routes.ts";
import { openSdkScripts } from "./sdk-scripts.ts";

const TOKEN = "phc_sdk_test";

const beta: FlagDefinition = {
  id: 7,
  key: "beta-feature",
  name: "Try it",
  active: true,
  version: 1,
  filters: { groups: [], feature_enrollment: true, payloads: { true: '{"a":1}' } },
  ensureExperienceContinuity: false,
  bucketingIdentifier: "distinct_id",
  evaluationRuntime: "all",
  evaluationContexts: [],
  hasExperiment: false,
  isSurveyFlag: false,
};

describe("what browser SDKs load", () => {
  let app: App;

  beforeAll(() => {
    app = createApp({ logger: pino({ level: "silent" }) });
    const flagSet = compileFlags({ flags: [beta], cohorts: [], groupTypes: [], timeZone: "UTC" });
    publicApi(app, (open) =>
      sdkRoutes(open, {
        projects: {
          find: (token) => (token === TOKEN ? ({ id: 1 } as Project) : undefined),
          forget: () => {},
        },
        scripts: openSdkScripts(),
        earlyAccessFeatures: async () => earlyAccessFeaturesOf(flagSet),
      }),
    );
  });
  afterAll(() => app.close());

  const get = (url: string, headers = {}) => app.inject({ method: "GET", url, headers });

  it("[SD-1] settings come as JSON and as a script that puts them where the SDK looks", async () => {
    const config = (await get(`/array/${TOKEN}/config`)).json();
    expect(config).toMatchObject({
      token: TOKEN,
      hasFeatureFlags: true,
      supportedCompression: ["gzip", "gzip-js", "lz64", "base64"],
      analytics: { endpoint: "/i/v0/e/" },
    });
    const script = await get(`/array/${TOKEN}/config.js`);
    expect(script.headers["content-type"]).toContain("javascript");
    const window: { _POSTHOG_REMOTE_CONFIG?: Record<string, unknown> } = {};
    runInNewContext(script.body, { window });
    const placed = JSON.parse(JSON.stringify(window._POSTHOG_REMOTE_CONFIG));
    expect(placed).toEqual({ [TOKEN]: { config, siteApps: [] } });
  });

  it("[SD-1] settings of a key nobody has are not found", async () => {
    for (const file of ["config", "config.js", "array.js"]) {
      const response = await get(`/array/phc_unknown/${file}`);
      expect(response.statusCode).toBe(404);
      expect(response.json()).toMatchObject({ code: "not_found" });
    }
  });

  it("[SD-2] scripts come from the SDK's package, with a tag that saves sending them again", async () => {
    for (const url of ["/static/array.js?v=1.2.3", "/static/1.2.3/array.js"]) {
      const script = await get(url);
      expect(script.statusCode).toBe(200);
      expect(script.headers["content-type"]).toContain("javascript");
      expect(script.body).toContain("posthog");
      const again = await get(url, { "if-none-match": script.headers.etag });
      expect(again.statusCode).toBe(304);
    }
    expect((await get(`/array/${TOKEN}/array.js`)).body).toContain("_POSTHOG_REMOTE_CONFIG");
  });

  it.each(["/static/nothing.js", "/static/..%2f..%2fpackage.json", "/static/package.json"])(
    "[SD-2] %s is no script",
    async (url) => {
      expect((await get(url)).statusCode).toBe(404);
    },
  );

  it("[SD-3] flags that read an enrolment are listed as features to enrol in", async () => {
    const response = await get(`/api/early_access_features/?token=${TOKEN}`);
    expect(response.json()).toEqual({
      earlyAccessFeatures: [
        {
          id: "7",
          name: "Try it",
          description: "Try it",
          stage: "beta",
          documentationUrl: null,
          payload: '{"a":1}',
          flagKey: "beta-feature",
        },
      ],
    });
  });

  it("[SD-4] lists of what Hedgerow does not have are empty, and need a key all the same", async () => {
    expect((await get(`/api/surveys/?token=${TOKEN}`)).json()).toEqual({ surveys: [] });
    expect((await get(`/api/web_experiments/?token=${TOKEN}`)).json()).toEqual({ experiments: [] });
    expect((await get(`/api/product_tours/?token=${TOKEN}`)).json()).toEqual({ product_tours: [] });
    expect((await get("/api/surveys/")).json()).toMatchObject({ code: "missing_api_key" });
    expect((await get(`/api/surveys/?token=phc_other&token=${TOKEN}`)).statusCode).toBe(200);
    const wrong = await get("/api/surveys/?token=phc_other");
    expect([wrong.statusCode, wrong.json().code]).toEqual([401, "invalid_api_key"]);
  });
});
