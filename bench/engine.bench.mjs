// One multivariate flag with one property condition, in process: our engine against the evaluators
// of other projects, each through its public call for one flag and one user. Rounds alternate, so
// drift of the machine hits all alike. Then fifty mixed flags in one request, ours alone.
// Prints a table on stderr and the figures as JSON on stdout.
import { GrowthBookClient } from "@growthbook/growthbook";
import { compileFlags } from "@hedgerow/core/flags/compile-flags";
import { evaluateFlags } from "@hedgerow/core/flags/evaluate-flags";
import { init } from "@launchdarkly/node-server-sdk";
import { TestData } from "@launchdarkly/node-server-sdk/integrations";
import { FlagdCore } from "@openfeature/flagd-core";
import { PostHog } from "posthog-node";
import { mixedFlags, PROPERTIES } from "./mixed-flags.mjs";

const ROUND_MS = Number(process.env.BENCH_ROUND_MS ?? 50);
const ROUNDS = Number(process.env.BENCH_ENGINE_ROUNDS ?? 31);
// Key and ids as in the consistency lists that PostHog and its SDKs publish.
const KEY = "multivariate-flag";

/** A thousand users, half of whom meet the condition. */
const users = Array.from({ length: 1000 }, (_, n) => ({
  id: `distinct_id_${n}`,
  plan: n % 2 === 0 ? "enterprise" : "free",
}));

const filters = {
  groups: [
    {
      properties: [{ key: "plan", type: "person", operator: "exact", value: "enterprise" }],
      rollout_percentage: 100,
    },
  ],
  multivariate: {
    variants: [
      { key: "control", rollout_percentage: 50 },
      { key: "test", rollout_percentage: 50 },
    ],
  },
};

function definition(flag, at = 0) {
  return {
    id: at + 1,
    name: "",
    active: true,
    version: 1,
    ensureExperienceContinuity: false,
    bucketingIdentifier: "distinct_id",
    evaluationRuntime: "all",
    evaluationContexts: [],
    hasExperiment: false,
    isSurveyFlag: false,
    ...flag,
  };
}

function compile(flags) {
  return compileFlags({
    flags: flags.map(definition),
    cohorts: [],
    groupTypes: [{ index: 0, name: "company" }],
    timeZone: "UTC",
  });
}

const selection = { keys: null, contexts: null, runtime: "server", onlySurveyFlags: false };

// The clock is the caller's, and none of the others reads one for a flag like this. What is empty
// is shared, as the server shares it.
const now = new Date();
const nothing = Object.freeze({});
const unstored = Object.freeze({ person: null, groups: nothing });

function requestOf(distinctId, personProperties) {
  return {
    now,
    distinctId,
    deviceId: null,
    anonDistinctId: null,
    groups: nothing,
    personProperties,
    groupProperties: nothing,
    geoProperties: nothing,
    stored: unstored,
    selection,
  };
}

function hedgerow() {
  const set = compile([{ key: KEY, filters }]);
  return {
    name: "hedgerow",
    evaluate: (user) =>
      evaluateFlags(set, requestOf(user.id, { plan: user.plan })).evaluations[0].value,
    close() {},
  };
}

async function growthbook() {
  const client = new GrowthBookClient({});
  await client.init({
    payload: {
      features: {
        [KEY]: {
          defaultValue: false,
          rules: [
            {
              condition: { plan: "enterprise" },
              variations: ["control", "test"],
              weights: [0.5, 0.5],
              coverage: 1,
              hashAttribute: "id",
              hashVersion: 2,
              key: KEY,
            },
          ],
        },
      },
    },
  });
  return {
    name: "@growthbook/growthbook",
    evaluate: (user) =>
      client.evalFeature(KEY, { attributes: { id: user.id, plan: user.plan } }).value,
    close: () => client.destroy(),
  };
}

function flagd() {
  const core = new FlagdCore(undefined, { error() {}, warn() {}, info() {}, debug() {} });
  core.setConfigurations(
    JSON.stringify({
      flags: {
        [KEY]: {
          state: "ENABLED",
          variants: { off: "off", control: "control", test: "test" },
          defaultVariant: "off",
          targeting: {
            if: [
              { "==": [{ var: "plan" }, "enterprise"] },
              {
                fractional: [
                  { cat: [{ var: "$flagd.flagKey" }, { var: "targetingKey" }] },
                  ["control", 50],
                  ["test", 50],
                ],
              },
              "off",
            ],
          },
        },
      },
    }),
  );
  return {
    name: "@openfeature/flagd-core",
    evaluate: (user) =>
      core.resolveStringEvaluation(KEY, "off", { targetingKey: user.id, plan: user.plan }).value,
    close() {},
  };
}

async function launchdarkly() {
  const data = new TestData();
  await data.usePreconfiguredFlag({
    key: KEY,
    version: 1,
    on: true,
    salt: "f3c6",
    variations: ["off", "control", "test"],
    offVariation: 0,
    fallthrough: { variation: 0 },
    prerequisites: [],
    targets: [],
    rules: [
      {
        id: "enterprise",
        clauses: [
          {
            contextKind: "user",
            attribute: "plan",
            op: "in",
            values: ["enterprise"],
            negate: false,
          },
        ],
        rollout: {
          contextKind: "user",
          variations: [
            { variation: 1, weight: 50000 },
            { variation: 2, weight: 50000 },
          ],
        },
      },
    ],
  });
  const silent = { error() {}, warn() {}, info() {}, debug() {} };
  const client = init("sdk-key", {
    updateProcessor: data.getFactory(),
    sendEvents: false,
    diagnosticOptOut: true,
    logger: silent,
  });
  await client.waitForInitialization({ timeout: 5 });
  return {
    name: "@launchdarkly/node-server-sdk",
    isAsync: true,
    evaluate: (user) =>
      client.variation(KEY, { kind: "user", key: user.id, plan: user.plan }, "off"),
    close: () => client.close(),
  };
}

async function posthogNode() {
  const body = {
    flags: [{ id: 1, team_id: 1, name: "", key: KEY, active: true, deleted: false, filters }],
    group_type_mapping: {},
    cohorts: {},
  };
  const client = new PostHog("phc_bench", {
    personalApiKey: "phx_bench",
    host: "http://127.0.0.1:9",
    disableGeoip: true,
    fetch: async () =>
      new Response(JSON.stringify(body), { headers: { "content-type": "application/json" } }),
  });
  await client.waitForLocalEvaluationReady(5000);
  return {
    name: "posthog-node",
    isAsync: true,
    evaluate: (user) =>
      client.getFeatureFlag(KEY, user.id, {
        personProperties: { plan: user.plan },
        onlyEvaluateLocally: true,
        sendFeatureFlagEvents: false,
      }),
    close: () => client.shutdown(),
  };
}

/** Both variants in about equal parts for those who meet the condition, nothing for the others. */
async function verify(engine) {
  const counts = new Map();
  for (const user of users) {
    const value = await engine.evaluate(user);
    const cell = `${user.plan} ${value === "off" ? false : value}`;
    counts.set(cell, (counts.get(cell) ?? 0) + 1);
  }
  const test = counts.get("enterprise test") ?? 0;
  const control = counts.get("enterprise control") ?? 0;
  if (test + control !== 500 || Math.abs(test - 250) > 60 || counts.get("free false") !== 500) {
    throw new Error(`${engine.name} does not do the task: ${JSON.stringify([...counts])}`);
  }
}

/** Evaluations per second in one round. */
async function measureRound(engine) {
  let count = 0;
  const startedMs = performance.now();
  let elapsedMs = 0;
  while (elapsedMs < ROUND_MS) {
    if (engine.isAsync) {
      for (let n = 0; n < 200; n += 1) await engine.evaluate(users[(count + n) % 1000]);
    } else {
      for (let n = 0; n < 200; n += 1) engine.evaluate(users[(count + n) % 1000]);
    }
    count += 200;
    elapsedMs = performance.now() - startedMs;
  }
  return (count / elapsedMs) * 1000;
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

function measureMixed() {
  const set = compile(mixedFlags());
  const requests = users.map((user) => requestOf(user.id, { ...PROPERTIES, plan: user.plan }));
  const rounds = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const startedMs = performance.now();
    let elapsedMs = 0;
    let count = 0;
    while (elapsedMs < ROUND_MS) {
      for (let n = 0; n < 50; n += 1) evaluateFlags(set, requests[(count + n) % 1000]);
      count += 50;
      elapsedMs = performance.now() - startedMs;
    }
    rounds.push((elapsedMs * 1000) / count);
  }
  return {
    flags: set.flags.length,
    microseconds: median(rounds),
    bestMicroseconds: Math.min(...rounds),
  };
}

const engines = [
  hedgerow(),
  await growthbook(),
  flagd(),
  await launchdarkly(),
  await posthogNode(),
];
const rounds = new Map(engines.map((engine) => [engine, []]));
for (const engine of engines) {
  await verify(engine);
  await measureRound(engine);
}
for (let round = 0; round < ROUNDS; round += 1) {
  for (const engine of engines) rounds.get(engine).push(await measureRound(engine));
}
const ours = rounds.get(engines[0]);
const rows = engines.map((engine) => {
  const theirs = rounds.get(engine);
  // Round by round: on a busy machine neighbours in time compare better than medians.
  const oursToTheirs = median(theirs.map((perSecond, round) => ours[round] / perSecond));
  return { name: engine.name, opsPerSecond: median(theirs), oursToTheirs };
});
const mixed = measureMixed();
for (const engine of engines) await engine.close();

const lines = rows.map(
  (row) =>
    `${row.name.padEnd(32)}${Math.round(row.opsPerSecond).toLocaleString("en").padStart(12)}/s${row.oursToTheirs.toFixed(1).padStart(9)}×`,
);
console.error(
  [
    `${"one flag, one condition".padEnd(32)}${"evaluations".padStart(14)}${"ours : it".padStart(10)}`,
    ...lines,
    `${mixed.flags} mixed flags in one request: ${mixed.microseconds.toFixed(1)} µs (best round ${mixed.bestMicroseconds.toFixed(1)})`,
  ].join("\n"),
);
console.log(JSON.stringify({ rows, mixed }, null, 2));
