// decide over HTTP: 50 flags of mixed kinds, 32 connections, against a bare node:http server that
// answers the same bytes to the same requests. Short rounds alternate, so drift of the machine hits
// both; of each round the answers per second and the server's CPU time per answer are taken.
import { fork, spawn } from "node:child_process";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { cpuSecondsOf, freePort, measuredServer, PROJECT_KEY } from "./measured-server.mjs";
import { mixedFlags, PROPERTIES } from "./mixed-flags.mjs";

const CONNECTIONS = 32;
const SECONDS = Number(process.env.BENCH_SECONDS ?? 2);
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 9);
const here = fileURLToPath(import.meta.url);

if (process.argv[2] === "--bare") {
  const [answer, port] = [Buffer.from(process.argv[3], "base64"), Number(process.argv[4])];
  createServer((request, response) => {
    request.on("data", () => {});
    request.on("end", () => {
      response.writeHead(200, {
        "content-type": "application/json; charset=utf-8",
        "content-length": answer.length,
      });
      response.end(answer);
    });
  }).listen(port, "127.0.0.1", () => process.send("ready"));
} else {
  console.log(JSON.stringify(await measure(), null, 2));
}

/** One round on one server, with the CPU time it cost that server. */
async function load(url, body, cpuSeconds) {
  const script = fileURLToPath(new URL("./load.mjs", import.meta.url));
  const before = cpuSeconds();
  const child = spawn(process.execPath, [script, url, String(CONNECTIONS), String(SECONDS), body], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let out = "";
  for await (const chunk of child.stdout) out += chunk;
  const result = JSON.parse(out);
  if (result.errors > 0) throw new Error(`errors: ${out}`);
  return { ...result, cpuMicroseconds: ((cpuSeconds() - before) / result.answers) * 1e6 };
}

function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}

/** Medians over the rounds; ratios are of neighbouring rounds. */
async function compare(server, body) {
  const url = `${server.url}/decide/?v=3`;
  const answered = await fetch(url, { method: "POST", body });
  const bytes = Buffer.from(await answered.arrayBuffer());
  const port = await freePort();
  const bare = fork(here, ["--bare", bytes.toString("base64"), String(port)]);
  try {
    await new Promise((resolve) => bare.once("message", resolve));
    const rounds = [];
    // The first two rounds warm up.
    for (let round = -2; round < ROUNDS; round++) {
      const ours = await load(url, body, server.cpuSeconds);
      const baseline = await load(`http://127.0.0.1:${port}/decide/?v=3`, body, () =>
        cpuSecondsOf(bare.pid),
      );
      if (round >= 0) rounds.push({ ours, baseline });
    }
    const medianOf = (read) => median(rounds.map(read));
    const side = (name) => ({
      perSecond: medianOf((round) => round[name].perSecond),
      cpuMicroseconds: medianOf((round) => round[name].cpuMicroseconds),
      p50Ms: medianOf((round) => round[name].p50Ms),
      p99Ms: medianOf((round) => round[name].p99Ms),
    });
    const ratios = rounds.map(({ ours, baseline }) => ours.perSecond / baseline.perSecond);
    return {
      answerBytes: bytes.length,
      ours: side("ours"),
      baseline: side("baseline"),
      ratio: median(ratios),
      cpuRatio: medianOf(({ ours, baseline }) => baseline.cpuMicroseconds / ours.cpuMicroseconds),
      ratios,
    };
  } finally {
    bare.kill();
  }
}

async function measure() {
  const server = await measuredServer();
  await server.start();
  try {
    for (const flag of mixedFlags())
      await server.api("POST", "/api/projects/1/feature_flags/", flag);
    const sent = await compare(
      server,
      JSON.stringify({
        api_key: PROJECT_KEY,
        distinct_id: "user-1",
        person_properties: PROPERTIES,
      }),
    );
    const set = await fetch(`${server.url}/capture/`, {
      method: "POST",
      body: JSON.stringify({
        api_key: PROJECT_KEY,
        event: "$set",
        distinct_id: "user-2",
        properties: { $set: PROPERTIES },
      }),
    });
    if (!set.ok) throw new Error(await set.text());
    const stored = await compare(
      server,
      JSON.stringify({ api_key: PROJECT_KEY, distinct_id: "user-2" }),
    );
    return { name: "decide over HTTP, 50 mixed flags, 32 connections", sent, stored };
  } finally {
    await server.close();
  }
}
