// What transformations cost: one simple transformation on events of about 1 kB, in batches of 500,
// in CPU time of the process for each event; parsing and writing the same event once in QuickJS is
// the baseline that no transformation can go below. Then how long a chain of three takes to start, and
// what is left of a project's throughput while another project's transformation loops.
// Prints a table on stderr and the figures as JSON on stdout.
import { createRequire } from "node:module";
import { newQuickJSWASMModuleFromVariant } from "quickjs-emscripten-core";
import { QuickJsSandbox } from "../packages/server/dist/engines/quickjs-sandbox/quickjs-sandbox.js";
import { DEFAULT_LIMITS } from "../packages/server/dist/transformations/sandbox.js";

const ROUNDS = Number(process.env.BENCH_TRANSFORMATION_ROUNDS ?? 12);
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

const baseline = await measureBaseline();
const { instance } = await start(SIMPLE, 1);
const costs = [];
for (let round = 0; round < ROUNDS; round += 1) {
  const before = process.cpuUsage();
  await instance.transform(events);
  costs.push(cpuMicros(before) / BATCH);
}
const microsPerEvent = middle(costs.slice(ROUNDS / 3));

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

const figures = {
  eventBytes: Buffer.byteLength(JSON.stringify(events[0])),
  microsPerEvent: Number(microsPerEvent.toFixed(1)),
  baselineMicros: Number(baseline.toFixed(1)),
  chainOfThreeMs: Number(chainMs.toFixed(1)),
  throughputBesideLoop: Number((beside / alone).toFixed(2)),
};
console.error(figures);
console.log(JSON.stringify(figures));
