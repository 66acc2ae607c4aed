// Results of an experiment over ten million events: one mean metric and ten metrics together, against
// the best SQL we could write by hand for the same sums on the same DuckDB file, each on a store that
// was just opened. Then how long flag requests take while results are computed. The events are made by
// SQL. Prints JSON on stdout.
import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { measuredServer, PROJECT_KEY } from "./measured-server.mjs";

const { DuckDBInstance } = createRequire(
  new URL("../packages/server/package.json", import.meta.url),
)("@duckdb/node-api");
const { openDuckDbEvents } = await import(
  "../packages/server/dist/engines/duckdb-events/duckdb-events.js"
);

const EVENTS = Number(process.env.BENCH_EVENTS ?? 10_000_000);
const PERSONS = 200_000;
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const SECONDS = Number(process.env.BENCH_SECONDS ?? 4);
const DAY_MS = 86_400_000;
const DAYS = 14;
const SETTINGS = { threads: "1", memory_limit: "128MiB", preserve_insertion_order: "false" };

/** Flag calls are one in 25, purchases one in ten, clicks two in ten, the rest page views. */
async function fill(path, startMs) {
  const instance = await DuckDBInstance.create(path, { ...SETTINGS, threads: "2" });
  const connection = await instance.connect();
  await connection.run("set memory_limit = '1GiB'");
  await connection.run(
    `create temp table people as
      select p, md5(p::varchar)::uuid as id, 'user-' || p as distinct_id,
          case when hash(p) % 2 = 0 then 'control' else 'test' end as variant
        from range(${PERSONS}) r(p)`,
  );
  await connection.run(
    `insert into events (project_id, position, uuid, event, distinct_id, person_id, timestamp,
        received_at, properties, properties_length, feature_flag, feature_flag_response, session_id)
      select 1, n, '00000000-0000-0000-0000-000000000000'::uuid, event, distinct_id, id, happened, happened,
          case event when '$feature_flag_called' then
              '{"$feature_flag":"button","$feature_flag_response":"' || variant || '"}'
            when 'purchase' then '{"price":' || (1 + n * 7919 % 10000) / 100 ||
              ',"currency":"EUR","quantity":' || n % 7 || '}'
            else '{"path":"/page/' || n % 100 || '"}' end,
          60, case when event = '$feature_flag_called' then 'button' end,
          case when event = '$feature_flag_called' then variant end, 's' || (p * 3 + n % 3)
        from (select n, hash(n) % ${PERSONS} as person,
              case when n % 25 = 0 then '$feature_flag_called' when n % 10 = 1 then 'purchase'
                when n % 10 < 4 then 'click' else '$pageview' end as event,
              epoch_ms(${startMs} + (n * ${DAYS * DAY_MS - 1} // ${EVENTS})::bigint) as happened
            from range(1, ${EVENTS + 1}) r(n)) join people on p = person
        order by n`,
  );
  await connection.run("checkpoint");
  connection.closeSync();
  instance.closeSync();
}

/** The same sums by hand: exposures, values and sums in one statement. */
async function byHand(path) {
  const instance = await DuckDBInstance.create(path, { ...SETTINGS, access_mode: "READ_ONLY" });
  const connection = await instance.connect();
  const startedMs = performance.now();
  const cpu = process.cpuUsage();
  const result = await connection.runAndReadAll(
    `with calls as (
        select coalesce(m.into_id, e.person_id) as unit, min(e.timestamp) as exposed,
            min(e.feature_flag_response) as variant, max(e.feature_flag_response) as other
          from events e left join person_merges m
            on m.project_id = e.project_id and m.from_id = e.person_id
          where e.project_id = 1 and e.event = '$feature_flag_called'
            and e.feature_flag = 'button' and e.feature_flag_response in ('control', 'test')
          group by 1),
      counts as (
        select c.unit, count(*)::double as value
          from events e left join person_merges m
              on m.project_id = e.project_id and m.from_id = e.person_id
            join calls c on c.unit = coalesce(m.into_id, e.person_id) and e.timestamp >= c.exposed
          where e.project_id = 1 and e.event = 'purchase' group by c.unit)
      select variant, count(*)::double, sum(coalesce(value, 0)), sum(coalesce(value * value, 0))
        from calls left join counts using (unit) where variant = other
        group by variant order by variant`,
  );
  const spent = spentSince(startedMs, cpu);
  connection.closeSync();
  instance.closeSync();
  return { ...spent, sums: result.getRows().map(([, n, sum, squares]) => [n, sum, squares]) };
}

async function byUs(path, startMs, metrics) {
  const store = await openDuckDbEvents(path);
  const startedMs = performance.now();
  const cpu = process.cpuUsage();
  const measured = await store.measure(queryFrom(startMs), metrics, {
    lookbackMs: null,
    breakdown: null,
    byDay: false,
    level: 0.95,
  });
  const spent = spentSince(startedMs, cpu);
  await store.close();
  const sums = measured[0].arms.map(({ sums: { n, sum, sumSquares } }) => [n, sum, sumSquares]);
  return { ...spent, sums };
}

function spentSince(startedMs, cpu) {
  const { user, system } = process.cpuUsage(cpu);
  return { ms: performance.now() - startedMs, cpuMs: (user + system) / 1000 };
}

function queryFrom(startMs) {
  const from = new Date(startMs);
  return {
    projectId: 1,
    flagKey: "button",
    groupTypeIndex: null,
    variants: ["control", "test"],
    from,
    to: new Date(startMs + DAYS * DAY_MS),
    zone: { offsetMsAt: () => 0 },
    days: [{ day: "first", from }],
    marker: null,
    severalVariants: "exclude",
    everyEvent: [],
    exceptPersons: [],
    conditionOf: () => {
      throw new Error("no filters here");
    },
  };
}

const source = (event, measure) => ({ events: { event, filters: [] }, measure });
const mean = (event, measure, more = {}) => ({
  kind: "mean",
  goal: "increase",
  conversionWindowMs: null,
  winsorization: null,
  source: source(event, measure),
  ...more,
});
const price = (kind) => ({ kind, property: "price" });
const ONE = mean("purchase", { kind: "total" });
const TEN = [
  ONE,
  mean("purchase", { kind: "active" }),
  mean("purchase", price("sum")),
  mean("purchase", price("avg")),
  mean("purchase", price("max")),
  mean("purchase", { kind: "total" }, { conversionWindowMs: 7 * DAY_MS }),
  mean("purchase", price("sum"), {
    winsorization: { lowerPercentile: null, upperPercentile: 0.99, ignoreZeros: false },
  }),
  {
    kind: "ratio",
    goal: "increase",
    conversionWindowMs: null,
    numerator: source("purchase", price("sum")),
    denominator: source("purchase", { kind: "total" }),
  },
  mean("click", { kind: "total" }),
  mean("click", { kind: "unique-sessions" }),
];

function middle(rounds, pick) {
  return rounds.map(pick).toSorted((a, b) => a - b)[Math.floor(rounds.length / 2)];
}

/** Flag requests over some connections for some seconds. */
async function askForFlags(url) {
  const script = fileURLToPath(new URL("./load.mjs", import.meta.url));
  const body = JSON.stringify({ api_key: PROJECT_KEY, distinct_id: "user-1" });
  const child = spawn(
    process.execPath,
    [script, `${url}/decide/?v=3`, "4", String(SECONDS), body],
    {
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  let out = "";
  for await (const chunk of child.stdout) out += chunk;
  return JSON.parse(out);
}

/** The p99 of flag requests: idle, and while results are computed one after another. */
async function askMeanwhile(server, id) {
  const results = () => server.api("GET", `/api/projects/1/experiments/${id}/results?refresh=true`);
  await askForFlags(server.url);
  const idle = await askForFlags(server.url);
  let isDone = false;
  let computed = 0;
  const computing = (async () => {
    while (!isDone) {
      await results();
      computed += 1;
    }
  })();
  const busy = await askForFlags(server.url);
  isDone = true;
  await computing;
  return { idleP99Ms: idle.p99Ms, busyP99Ms: busy.p99Ms, computed, errors: busy.errors };
}

const startMs = Math.floor(Date.now() / DAY_MS) * DAY_MS - DAYS * DAY_MS;
const server = await measuredServer();
let isRunning = false;
try {
  await server.start();
  const { id } = await server.api("POST", "/api/projects/1/experiments/", {
    name: "Button",
    feature_flag_key: "button",
    start_date: new Date(startMs).toISOString(),
    metrics: [
      {
        kind: "ExperimentMetric",
        metric_type: "mean",
        source: { kind: "EventsNode", event: "purchase" },
      },
    ],
  });
  await server.stop();
  const path = join(server.data, "events.duckdb");
  await fill(path, startMs);
  const rounds = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const hand = await byHand(path);
    const one = await byUs(path, startMs, [ONE]);
    const ten = await byUs(path, startMs, TEN);
    const [theirs, ours] = [hand, one].map(({ sums }) => JSON.stringify(sums));
    if (theirs !== ours) throw new Error(`sums differ: ${theirs} by hand, ${ours} by us`);
    rounds.push({ hand, one, ten });
  }
  await server.start();
  isRunning = true;
  const decide = await askMeanwhile(server, id);
  const cpuMs = Object.fromEntries(
    ["hand", "one", "ten"].map((which) => [which, middle(rounds, (round) => round[which].cpuMs)]),
  );
  console.log(
    JSON.stringify({
      events: EVENTS,
      cpuMs,
      ms: Object.fromEntries(
        ["hand", "one", "ten"].map((which) => [which, middle(rounds, (round) => round[which].ms)]),
      ),
      oneRatio: middle(rounds, ({ hand, one }) => one.cpuMs / hand.cpuMs),
      tenRatio: middle(rounds, ({ one, ten }) => ten.cpuMs / one.cpuMs),
      decide,
      residentMb: server.residentMb(),
    }),
  );
} finally {
  if (isRunning) await server.stop();
  rmSync(server.data, { recursive: true, force: true });
}
