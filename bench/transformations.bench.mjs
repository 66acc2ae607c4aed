// What transformations cost: one simple transformation on events of about 1 kB, in batches of 500,
// in CPU time for each event, of all threads, of the main thread and of the sandbox's; parsing and
// writing the same event once in QuickJS is the baseline that an engine which reads whole events
// cannot go below. The same for one that answers a promise, and for one that looks through all
// properties. Then how long a chain of three takes to start, what is left of a project's throughput
// while another project's transformation loops, and how many events a second the whole server
// captures and stores with none, one and three transformations enabled.
// Prints a table on stderr and the figures as JSON on stdout.
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { newQuickJSWASMModuleFromVariant } from "quickjs-emscripten-core";
import { QuickJsSandbox } from "../packages/server/dist/engines/quickjs-sandbox/quickjs-sandbox.js";
import { DEFAULT_LIMITS } from "../packages/server/dist/transformations/sandbox.js";
import { measuredServer } from "./measured-server.mjs";

/** Of each load on the whole server; 0 leaves them out. */
const SERVER_SECONDS = Number(process.env.BENCH_TRANSFORMATION_SERVER_SECONDS ?? 20);
const ROUNDS = Number(process.env.BENCH_TRANSFORMATION_ROUNDS ?? 40);
const BATCH = 500;

const properties = Object.fromEntries(
  Array.from({ length: 30 }, (_, n) => [`property_${n}`, `value number ${n}`]),
);
const events = Array.from({ length: BATCH }, (_, n) => ({
  uuid: `01a221eb-98b2-72fa-8939-${String(n).padStart(12, "0")}`,
  event: "page seen",
  distinct_id: `person ${n}`,
  team_id: 1,
  timestamp: "2026-01-02T03:04:05.000Z",
  properties,
}));

const host = {
  log() {},
  readStored: async () => undefined,
  writeStored: async () => {},
  deleteStored: async () => {},
  capture: async () => {},
  enqueueJob: async () => {},
  locate: async () => null,
  countMetric() {},
};

function cpuMicros(since) {
  const { user, system } = process.cpuUsage(since);
  return user + system;
}

/** CPU microseconds that each thread of the process has had, where the platform tells. */
function threadMicros() {
  try {
    return new Map(
      readdirSync("/proc/self/task").map((thread) => {
        const text = readFileSync(`/proc/self/task/${thread}/schedstat`, "latin1");
        return [Number(thread), Number.parseInt(text, 10) / 1000];
      }),
    );
  } catch {
    return new Map();
  }
}

function middle(values) {
  return [...values].sort((left, right) => left - right)[Math.floor(values.length / 2)];
}

async function measureBaseline() {
  const require = createRequire(import.meta.resolve("../packages/server/package.json"));
  const { default: variant } = await import(require.resolve("@jitl/quickjs-wasmfile-release-sync"));
  const engine = await newQuickJSWASMModuleFromVariant(variant.default ?? variant);
  const context = engine.newContext();
  context.setProp(context.global, "line", context.newString(JSON.stringify(events[0])));
  const code = `for (let i = 0; i < ${BATCH}; i += 1) JSON.stringify(JSON.parse(line));`;
  const costs = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = process.cpuUsage();
    context.unwrapResult(context.evalCode(code)).dispose();
    costs.push(cpuMicros(before) / BATCH);
  }
  return middle(costs.slice(ROUNDS / 3));
}

const sandbox = new QuickJsSandbox();

async function start(source, projectId) {
  const { program } = await sandbox.compile({ "index.ts": source });
  const settings = { program, projectId, configId: 1, name: "bench", config: {}, attachments: {} };
  const startedAt = performance.now();
  const outcome = await sandbox.start({
    ...settings,
    allowedHosts: [],
    limits: DEFAULT_LIMITS,
    host,
  });
  return { instance: outcome.instance, startMs: performance.now() - startedAt };
}

const SIMPLE = "export function processEvent(e) { e.properties.added = e.event.length; return e }";

const ASYNC =
  "export async function processEvent(e) { e.properties.added = e.event.length; return e }";
const THROUGH_ALL = `export function processEvent(e) {
  for (const key of Object.keys(e.properties)) if (key.endsWith("_7")) delete e.properties[key];
  return e;
}`;

/** CPU microseconds for each event, of a chunk after the other as a chain gives them. */
async function measure(instance) {
  const given = events.map((event) => ({ event, line: JSON.stringify(event), hops: 0 }));
  const all = [];
  const main = [];
  const sandboxed = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = process.cpuUsage();
    const threadsBefore = threadMicros();
    await instance.pass(given);
    all.push(cpuMicros(before) / BATCH);
    const spent = [...threadMicros()].map(([thread, micros]) => ({
      isMain: thread === process.pid,
      micros: (micros - (threadsBefore.get(thread) ?? 0)) / BATCH,
    }));
    main.push(spent.find(({ isMain }) => isMain)?.micros ?? 0);
    sandboxed.push(Math.max(0, ...spent.flatMap((one) => (one.isMain ? [] : [one.micros]))));
  }
  const [total, ofMain, ofSandbox] = [all, main, sandboxed].map((costs) =>
    Number(middle(costs.slice(ROUNDS / 3)).toFixed(1)),
  );
  return { all: total, mainThread: ofMain, sandboxThread: ofSandbox };
}

const baseline = await measureBaseline();
const { instance } = await start(SIMPLE, 1);
const simple = await measure(instance);
const promised = await measure((await start(ASYNC, 1)).instance);
const throughAll = await measure((await start(THROUGH_ALL, 1)).instance);

// Another project than the first: a thread for it is open by now.
await new Promise((done) => setTimeout(done, 2_000));
const chain = [];
for (let n = 0; n < 3; n += 1) chain.push(await start(SIMPLE, 2));
const chainMs = chain.reduce((sum, { startMs }) => sum + startMs, 0);

async function throughput(milliseconds) {
  const until = performance.now() + milliseconds;
  let count = 0;
  while (performance.now() < until) count += (await instance.transform(events)).length;
  return (count / milliseconds) * 1000;
}
const { instance: looping } = await start("export function processEvent() { while (true) {} }", 3);
const alone = await throughput(3_000);
let isOver = false;
const loop = (async () => {
  while (!isOver) {
    // A pipeline brings it a few events at a time, and no faster than it takes them.
    await looping.transform(events.slice(0, 50));
    await new Promise((done) => setTimeout(done, 50));
  }
})();
const beside = await throughput(3_000);
isOver = true;
await loop;
await sandbox.close();

/** Events a second that the server takes, and how long it takes until all are stored. */
async function captureWith(server, seconds) {
  const script = fileURLToPath(new URL("./capture-load.mjs", import.meta.url));
  const args = [server.port, "/batch/", 8, seconds, 50].map(String);
  const child = spawn(process.execPath, [script, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let out = "";
  child.stdout.setEncoding("utf8");
  child.stdout.on("data", (text) => {
    out += text;
  });
  await new Promise((resolve, reject) => {
    child.once("close", (code) => (code === 0 ? resolve() : reject(new Error("load failed"))));
  });
  const { acked, tookSeconds } = JSON.parse(out.slice(out.indexOf("{")));
  const endedAt = performance.now();
  while ((await behind(server)) > 0) {
    if (performance.now() - endedAt > 300_000) throw new Error("the server does not catch up");
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const behindSeconds = (performance.now() - endedAt) / 1000;
  return {
    ackedPerSecond: Math.round(acked / tookSeconds),
    storedPerSecond: Math.round(acked / (tookSeconds + behindSeconds)),
  };
}

/** Events that are captured and not stored yet. */
async function behind(server) {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  const of = (name) => Number(new RegExp(`^hedgerow_${name} (\\d+)`, "m").exec(text)?.[1] ?? 0);
  return of("transformation_lag_events") + of('log_lag_events{stage="stored"}');
}

async function measureServer() {
  const server = await measuredServer();
  await server.start();
  const answers = {};
  try {
    const source = { "index.ts": SIMPLE };
    const plugins = "/api/organizations/@current/pipeline_transformations";
    let enabled = 0;
    await captureWith(server, 5);
    for (const count of [0, 1, 3]) {
      for (; enabled < count; enabled += 1) {
        const { id } = await server.api("POST", plugins, {
          plugin_type: "source",
          name: `Simple ${enabled}`,
          source,
        });
        const configs = "/api/projects/1/pipeline_transformation_configs";
        await server.api("POST", configs, {
          plugin: id,
          order: enabled,
          enabled: true,
          config: {},
        });
      }
      answers[count] = await captureWith(server, SERVER_SECONDS);
    }
  } finally {
    await server.close();
  }
  return answers;
}

const server = SERVER_SECONDS > 0 ? await measureServer() : undefined;

const figures = {
  eventBytes: Buffer.byteLength(JSON.stringify(events[0])),
  microsPerEvent: simple.all,
  mainThreadMicros: simple.mainThread,
  sandboxThreadMicros: simple.sandboxThread,
  promisedMicros: promised.all,
  throughAllMicros: throughAll.all,
  baselineMicros: Number(baseline.toFixed(1)),
  chainOfThreeMs: Number(chainMs.toFixed(1)),
  throughputBesideLoop: Number((beside / alone).toFixed(2)),
  /** By transformations that are enabled. */
  ...(server && { server }),
};
console.error(figures);
console.log(JSON.stringify(figures));
