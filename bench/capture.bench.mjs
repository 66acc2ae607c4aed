// Durable capture over HTTP: gzip batches of 50 events of about 1 kB on 8 connections, and single
// events on 32; how far the store is behind when the load ends, memory, and what flag requests wait
// meanwhile: those for persons whose own events are being captured, which wait for them as promised,
// and those for others. Against a bare node:http server that decompresses, parses and appends to a
// file with fsync. The load generator is a process of its own and shares the cores.
import { fork, spawn } from "node:child_process";
import { closeSync, fdatasync, mkdtempSync, openSync, rmSync, write } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { cpuSecondsOf, freePort, measuredServer, PROJECT_KEY } from "./measured-server.mjs";
import { mixedFlags } from "./mixed-flags.mjs";

const SECONDS = Number(process.env.BENCH_CAPTURE_SECONDS ?? 60);
const SINGLE_SECONDS = Math.ceil(SECONDS / 4);
const IDLE_SECONDS = 8;
const BATCHES = { connections: 8, perRequest: 50 };
const SINGLES = { connections: 32, perRequest: 1 };
/** Persons with stored properties whom no load captures events of. */
const BYSTANDERS = 300;
const here = fileURLToPath(import.meta.url);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

if (process.argv[2] === "--bare") {
  const fd = openSync(process.argv[4], "a");
  let waiting = [];
  let isWriting = false;
  // Requests that arrive during an fsync share the next one, as in every log.
  const flush = () => {
    if (isWriting || waiting.length === 0) return;
    isWriting = true;
    const group = waiting;
    waiting = [];
    write(fd, group.map(({ text }) => `${text}\n`).join(""), () =>
      fdatasync(fd, () => {
        isWriting = false;
        for (const { response } of group) response.end('{"status":1}');
        flush();
      }),
    );
  };
  createServer((request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      const bytes = Buffer.concat(chunks);
      const text = (bytes[0] === 0x1f ? gunzipSync(bytes) : bytes).toString();
      const { batch } = JSON.parse(text);
      if (batch && batch.length === 0) throw new Error("no events");
      response.setHeader("content-length", 12);
      waiting.push({ text, response });
      flush();
    });
  })
    .listen(Number(process.argv[3]), "127.0.0.1", () => process.send("ready"))
    .once("close", () => closeSync(fd));
} else {
  console.log(JSON.stringify(await measure(), null, 2));
}

function startLoad(port, { connections, perRequest, seconds }) {
  const script = fileURLToPath(new URL("./capture-load.mjs", import.meta.url));
  const args = [port, "/batch/", connections, seconds, perRequest].map(String);
  const child = spawn(process.execPath, [script, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let out = "";
  child.stdout.setEncoding("utf8");
  const started = new Promise((resolve) => {
    child.stdout.on("data", (text) => {
      out += text;
      resolve();
    });
  });
  const ended = new Promise((resolve, reject) => {
    child.once("close", (code) =>
      code === 0
        ? resolve(JSON.parse(out.slice(out.indexOf("{"))))
        : reject(new Error("load failed")),
    );
  });
  return { started, ended };
}

async function bareLoad(options) {
  const folder = mkdtempSync(join(tmpdir(), "hedgerow-bench-"));
  const port = await freePort();
  const bare = fork(here, ["--bare", String(port), join(folder, "log")]);
  await new Promise((resolve) => bare.once("message", resolve));
  const load = startLoad(port, options);
  await load.started;
  const cpuBefore = cpuSecondsOf(bare.pid);
  const result = await load.ended;
  const cpuSeconds = cpuSecondsOf(bare.pid) - cpuBefore;
  bare.kill();
  rmSync(folder, { recursive: true });
  return { ...result, cpuMicroseconds: (cpuSeconds * 1e6) / result.acked };
}

async function captureBystanders(server) {
  const batch = Array.from({ length: BYSTANDERS }, (_, n) => ({
    event: "seen",
    distinct_id: `bystander-${n}`,
    properties: { $set: { plan: n % 2 ? "pro" : "free", visits: n }, $os: "Linux" },
  }));
  const body = JSON.stringify({ api_key: PROJECT_KEY, batch });
  const answered = await fetch(`${server.url}/batch/`, { method: "POST", body });
  if (!answered.ok) throw new Error(`capture answered ${answered.status}`);
}

/**
 * Asks for flags of one stored person after the other until told to stop, in turns of those whose
 * events the load captures and of bystanders; answers the latencies of both.
 */
async function decideUntil(server, ended) {
  let isOver = false;
  ended.then(() => {
    isOver = true;
  });
  const involved = [];
  const bystanders = [];
  for (let n = 0; !isOver; n++) {
    const isInvolved = n % 2 === 0;
    const id = isInvolved ? `user-${(n * 17) % 3000}` : `bystander-${n % BYSTANDERS}`;
    const body = JSON.stringify({ api_key: PROJECT_KEY, distinct_id: id });
    const startedAt = performance.now();
    const answered = await fetch(`${server.url}/decide/?v=3`, { method: "POST", body });
    await answered.arrayBuffer();
    (isInvolved ? involved : bystanders).push(performance.now() - startedAt);
    if (!answered.ok) throw new Error(`decide answered ${answered.status}`);
    await sleep(5);
  }
  return { involved: quantiles(involved), bystanders: quantiles(bystanders) };
}

function quantiles(latencies) {
  latencies.sort((a, b) => a - b);
  const at = (share) => latencies[Math.floor(latencies.length * share)];
  return { p50Ms: at(0.5), p99Ms: at(0.99), requests: latencies.length };
}

async function positions(server) {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  const of = (stage) => Number(new RegExp(`log_position{stage="${stage}"} (\\d+)`).exec(text)?.[1]);
  return { captured: of("captured"), persons: of("persons"), stored: of("stored") };
}

/** Samples memory once a second until told to stop. */
async function watchMemory(server, ended) {
  let isOver = false;
  ended.then(() => {
    isOver = true;
  });
  const samples = [];
  while (!isOver) {
    samples.push(server.residentMb());
    await Promise.race([sleep(1000), ended]);
  }
  return samples;
}

async function loadOurs(server, options) {
  const load = startLoad(server.port, options);
  await load.started;
  const cpuBefore = server.cpuSeconds();
  const during = Promise.all([decideUntil(server, load.ended), watchMemory(server, load.ended)]);
  const result = await load.ended;
  const endedAt = performance.now();
  const atEnd = await positions(server);
  const cpuSeconds = server.cpuSeconds() - cpuBefore;
  const [decide, memory] = await during;
  let now = atEnd;
  while (now.stored < atEnd.captured && performance.now() - endedAt < 300_000) {
    await sleep(100);
    now = await positions(server);
  }
  const half = Math.floor(memory.length / 2);
  return {
    ...result,
    decide,
    cpuMicroseconds: (cpuSeconds * 1e6) / result.acked,
    behindEvents: atEnd.captured - atEnd.stored,
    personsBehindEvents: atEnd.captured - atEnd.persons,
    behindSeconds: (performance.now() - endedAt) / 1000,
    peakMb: Math.max(...memory),
    halfwayMb: memory[half],
    endMb: memory.at(-1),
  };
}

async function measure() {
  const server = await measuredServer();
  await server.start();
  try {
    for (const flag of mixedFlags()) {
      await server.api("POST", "/api/projects/1/feature_flags/", flag);
    }
    await captureBystanders(server);
    // A short load first: persons exist then, and code is compiled.
    await loadOurs(server, { ...BATCHES, seconds: Math.min(5, SECONDS) });
    const idle = await decideUntil(server, sleep(IDLE_SECONDS * 1000));
    const batches = await loadOurs(server, { ...BATCHES, seconds: SECONDS });
    const singles = await loadOurs(server, { ...SINGLES, seconds: SINGLE_SECONDS });
    const bareBatches = await bareLoad({ ...BATCHES, seconds: SINGLE_SECONDS });
    const bareSingles = await bareLoad({ ...SINGLES, seconds: SINGLE_SECONDS });
    return { idle, batches, singles, bareBatches, bareSingles };
  } finally {
    await server.close();
  }
}
