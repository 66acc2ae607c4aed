// What storing an event costs the processor, at first and when there are millions of events: the
// index of uuids and insert ids by itself, and the event store as a whole. The many events are made
// up: sorted runs of random keys, and rows that DuckDB makes. The cost of making events is measured
// and taken off; threads of the process count, and for the store the main thread is shown as well
// (on Linux, which tells). The two are measured in turns, so that a machine that becomes slower does so
// for both. Prints a table on stderr, the figures on stdout.
import { randomBytes, randomUUID } from "node:crypto";
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DuckDBInstance } from "@duckdb/node-api";

const engine = new URL("../packages/server/dist/engines/duckdb-events/", import.meta.url);
const load = (path) => import(new URL(path, engine).href);
const { openDuckDbEvents } = await load("duckdb-events.js");
const { openEventIndex } = await load("event-index/event-index.js");
const { bytesOf, createSummaryBuilder, runInfoOf, summaryParts } =
  await load("event-index/key-run.js");

const MANY = Number(process.env.BENCH_STORING_EVENTS ?? 10_000_000);
const INDEX_ROUND = Number(process.env.BENCH_STORING_INDEX_ROUND ?? 1_000_000);
const STORE_ROUND = Number(process.env.BENCH_STORING_STORE_ROUND ?? 200_000);
/** Of each kind, one after the other in turns; the figures are the median of them. */
const TURNS = 5;
const BATCH = 1000;
const WORDS = 8;

const folder = mkdtempSync(join(tmpdir(), "hedgerow-storing-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

const cpuMicroseconds = () => {
  const { user, system } = process.cpuUsage();
  return user + system;
};

/** CPU time of the main thread; `NaN` where the system does not tell. */
const mainMicroseconds = () => {
  try {
    const path = `/proc/self/task/${process.pid}/schedstat`;
    return Number(readFileSync(path, "utf8").split(" ")[0]) / 1000;
  } catch {
    return Number.NaN;
  }
};

const words = Array.from({ length: 500 }, () => randomBytes(6).toString("base64url"));
/** Some text in which words recur, as in properties of events. */
const filler = (n) => Array.from({ length: 60 }, (_, at) => words[(n * at + n) % 500]).join(" ");
const fillers = Array.from({ length: 2000 }, (_, n) => filler(n));
let made = 0;
function makeEvent(position) {
  made++;
  return {
    uuid: randomUUID(),
    projectId: 1,
    event: `event ${made % 20}`,
    distinctId: `user-${made % 5000}`,
    properties: {
      $insert_id: made.toString(36).padStart(16, "0"),
      $current_url: `https://example.com/page/${made % 300}`,
      $lib: "web",
      $session_id: `session-${made % 9000}`,
      number: made,
      filler: fillers[made % fillers.length],
    },
    timestamp: new Date(1.7e12 + position),
    clientTimestamp: null,
    receivedAt: new Date(1.7e12 + position),
  };
}

/**
 * CPU time of some work for each of so many events, what making them takes taken off: of all threads,
 * and of the main thread.
 */
async function measure(count, makeOne, work) {
  const clocks = [cpuMicroseconds, mainMicroseconds];
  const start = clocks.map((clock) => clock());
  for (let n = 0; n < count; n++) makeOne(n + 1);
  const made = clocks.map((clock) => clock());
  await work(makeOne);
  const [all, main] = clocks.map((clock, at) => (clock() - 2 * made[at] + start[at]) / count);
  return { all, main };
}

const toIndexed = (event, position) => ({
  position,
  projectId: 1,
  uuid: event.uuid,
  event: event.event,
  distinctId: event.distinctId,
  clientTimestamp: null,
  receivedAt: event.receivedAt,
  insertId: event.properties.$insert_id,
  isChanged: false,
});

async function measureIndex(index, start, count) {
  const { all: claiming } = await measure(
    count,
    (n) => toIndexed(makeEvent(start + n), start + n),
    async (makeOne) => {
      for (let n = 0; n < count; n += BATCH) {
        await index.makeRoom(BATCH);
        const events = Array.from({ length: BATCH }, (_, at) => makeOne(n + at + 1));
        index.claim(index.keysOf(events), 0, BATCH);
        index.keep(start + n + BATCH);
        await new Promise(setImmediate);
      }
      await index.settle();
    },
  );
  const asked = Array.from({ length: 50_000 }, (_, n) => makeEvent(n));
  const before = cpuMicroseconds();
  // As many at a time as a request brings.
  for (let n = 0; n < asked.length; n += 50) index.acquaint(1, asked.slice(n, n + 50));
  const asking = (cpuMicroseconds() - before) / asked.length;
  return { claiming, asking };
}

async function measureStore(store, start, count) {
  const personId = "aaaaaaaa-0000-5000-8000-000000000000";
  return measure(
    count,
    (n) => ({
      position: start + n,
      event: makeEvent(start + n),
      personId,
      groupKeys: [],
      changedBy: [],
    }),
    async (makeOne) => {
      for (let n = 0; n < count; n += BATCH) {
        const rows = Array.from({ length: BATCH }, (_, at) => makeOne(n + at + 1));
        const { stored } = await store.insert({
          rows,
          merges: [],
          drops: [],
          deadLetters: [],
          end: start + n + BATCH,
        });
        if (stored !== BATCH) throw new Error(`stored ${stored} of ${BATCH}`);
      }
    },
  );
}

/** Measures what has few events and what has many in turns: the median of each figure, and of their ratios. */
async function inTurns(few, many, round, measureOne) {
  const count = Math.ceil(round / TURNS / BATCH) * BATCH;
  const turns = [];
  for (let turn = 0; turn < TURNS; turn++) {
    const first = await measureOne(few, turn * count, count);
    turns.push({ first, many: await measureOne(many, MANY + turn * count, count) });
  }
  const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
  const of = (figure) => ({
    first: median(turns.map(({ first }) => first[figure])),
    many: median(turns.map(({ many }) => many[figure])),
    ratio: median(turns.map(({ first, many }) => many[figure] / first[figure])),
  });
  return Object.fromEntries(Object.keys(turns[0].first).map((figure) => [figure, of(figure)]));
}

/** Longest time for which a batch of many events keeps the process from anything else. */
async function measureBlocking(path) {
  const store = await openDuckDbEvents(path);
  const rows = Array.from({ length: 100_000 }, (_, n) => ({
    position: n + 1,
    event: makeEvent(n + 1),
    personId: "aaaaaaaa-0000-5000-8000-000000000000",
    groupKeys: [],
    changedBy: [],
  }));
  let longestMs = 0;
  let lastMs = performance.now();
  let isDone = false;
  const watch = () => {
    longestMs = Math.max(longestMs, performance.now() - lastMs);
    lastMs = performance.now();
    if (!isDone) setImmediate(watch);
  };
  setImmediate(watch);
  await store.insert({ rows, merges: [], drops: [], deadLetters: [], end: rows.length });
  isDone = true;
  await store.close();
  return longestMs;
}

/** Writes an index that knows so many uuids and a quarter as many insert ids, none of which recurs. */
function makeIndex(path, count) {
  mkdirSync(path, { recursive: true });
  let nextFile = 1;
  const makeRuns = (keys) =>
    [0.4, 0.4, 0.1, 0.05, 0.05].map((share) => {
      const file = `${String(nextFile++).padStart(8, "0")}.run`;
      return makeRun(join(path, file), file, Math.floor(keys * share));
    });
  const manifest = {
    version: 2,
    salt: randomBytes(32).toString("hex"),
    end: count,
    uuids: makeRuns(count),
    insertIds: makeRuns(count / 4),
  };
  writeFileSync(join(path, "manifest.json"), JSON.stringify({ ...manifest, nextFile }));
}

function makeRun(path, file, count) {
  const fd = openSync(path, "w");
  const builder = createSummaryBuilder(count);
  const lastSecond = 1.7e9;
  for (let start = 0; start < count; start += 8192) {
    const length = Math.min(8192, count - start);
    const random = randomBytes(4 * WORDS * length);
    const records = new Uint32Array(random.buffer, random.byteOffset, WORDS * length);
    for (let at = 0; at < length; at++) {
      // Random keys in order: a step on average, with chance in its lower part.
      records[WORDS * at] = ((start + at) / count) * 2 ** 32;
      records[WORDS * at + 4] = start + at + 1;
      records[WORDS * at + 5] = 0;
      records[WORDS * at + 7] = lastSecond;
      builder.add(records, at);
    }
    writeSync(fd, bytesOf(records));
  }
  const summary = builder.finish();
  for (const part of summaryParts(summary)) writeSync(fd, part);
  closeSync(fd);
  return runInfoOf({ file, count, lastSecond }, summary);
}

/** Fills the table of a store with so many rows. */
async function fillStore(path, count) {
  await (await openDuckDbEvents(path)).close();
  const instance = await DuckDBInstance.create(path, { threads: "2", memory_limit: "256MiB" });
  const connection = await instance.connect();
  await connection.run(
    `insert into events by name select 1 as project_id, n as position, uuid() as uuid,
      'event ' || n % 20 as event, 'user-' || n % 5000 as distinct_id,
      'aaaaaaaa-0000-5000-8000-000000000000'::uuid as person_id,
      make_timestamp(1700000000000000 + n * 1000) as timestamp,
      make_timestamp(1700000000000000 + n * 1000) as received_at,
      '{"number":' || n || '}' as properties, 20 as properties_length,
      'session-' || n % 9000 as session_id
      from range(1, ${count + 1}) r(n)`,
  );
  await connection.run(`update consumer set position = ${count}`);
  connection.closeSync();
  instance.closeSync();
  rmSync(`${path}.index`, { recursive: true, force: true });
  makeIndex(`${path}.index`, count);
}

makeIndex(join(folder, "many"), MANY);
const indexes = await Promise.all(
  ["first", "many"].map((name) => openEventIndex({ folder: join(folder, name), stored: 1e12 })),
);
const index = await inTurns(...indexes, INDEX_ROUND, measureIndex);
for (const one of indexes) await one.close();
const blockingMs = await measureBlocking(join(folder, "blocking.duckdb"));
await fillStore(join(folder, "many.duckdb"), MANY);
const stores = await Promise.all(
  ["first", "many"].map((name) => openDuckDbEvents(join(folder, `${name}.duckdb`))),
);
const store = await inTurns(...stores, STORE_ROUND, measureStore);
for (const one of stores) await one.close();

const rows = [
  ["index: claim and keep", index.claiming],
  ["index: ask about a new event", index.asking],
  ["event store: insert", store.all],
  ["… the main thread's share", store.main],
];
console.error(`CPU µs for each event             first      from ${MANY / 1e6} million on   ratio`);
for (const [name, { first, many, ratio }] of rows) {
  console.error(
    `${name.padEnd(30)} ${first.toFixed(2).padStart(8)} ${many.toFixed(2).padStart(12)} ${ratio.toFixed(2).padStart(16)}`,
  );
}
console.error(
  `a batch of 100,000 events holds up other work for ${blockingMs.toFixed(0)} ms at most`,
);
console.log(JSON.stringify({ events: MANY, index, store, blockingMs }, null, 2));
