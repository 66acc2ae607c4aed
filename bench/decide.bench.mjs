// decide over HTTP: 50 flags of mixed kinds, 32 connections, against a bare node:http server that
// answers the same bytes to the same requests. Rounds alternate, so drift of the machine hits both.
import { fork, spawn } from "node:child_process";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { freePort, measuredServer, PROJECT_KEY } from "./measured-server.mjs";
import { mixedFlags, PROPERTIES } from "./mixed-flags.mjs";

const CONNECTIONS = 32;
const SECONDS = Number(process.env.BENCH_SECONDS ?? 4);
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
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

async function load(url, body) {
  const script = fileURLToPath(new URL("./load.mjs", import.meta.url));
  const child = spawn(process.execPath, [script, url, String(CONNECTIONS), String(SECONDS), body], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let out = "";
  for await (const chunk of child.stdout) out += chunk;
  return JSON.parse(out);
}

async function compare(server, body) {
  const url = `${server.url}/decide/?v=3`;
  const answered = await fetch(url, { method: "POST", body });
  const bytes = Buffer.from(await answered.arrayBuffer());
  const port = await freePort();
  const bare = fork(here, ["--bare", bytes.toString("base64"), String(port)]);
  await new Promise((resolve) => bare.once("message", resolve));
  const rounds = [];
  for (let round = -1; round < ROUNDS; round++) {
    const ours = await load(url, body);
    const baseline = await load(`http://127.0.0.1:${port}/decide/?v=3`, body);
    if (ours.errors + baseline.errors > 0)
      throw new Error(`errors: ${JSON.stringify([ours, baseline])}`);
    if (round >= 0) rounds.push({ ours, baseline, ratio: ours.perSecond / baseline.perSecond });
  }
  bare.kill();
  rounds.sort((a, b) => a.ratio - b.ratio);
  return {
    answerBytes: bytes.length,
    median: rounds[Math.floor(rounds.length / 2)],
    rounds: rounds.map((r) => r.ratio),
  };
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
