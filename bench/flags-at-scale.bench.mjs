// A project of 10,000 flags: what a change costs until it is live, what all flags of a person cost,
// what one flag costs beside a project that has only that one, and what unchanged definitions cost.
// Of everything but changes the CPU time of the server is taken. Figures as JSON on stdout.
import { join } from "node:path";
import Database from "libsql";
import { measuredServer, PERSONAL_KEY, PROJECT_KEY } from "./measured-server.mjs";
import { mixedFlags, PROPERTIES } from "./mixed-flags.mjs";

const FLAGS = Number(process.env.BENCH_FLAGS ?? 10_000);
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const CHANGES = 15;
const ANSWERS_OF_ALL = 30;
const ANSWERS_OF_ONE = 2000;

const server = await measuredServer();
await server.start();
try {
  console.log(JSON.stringify(await measure(), null, 2));
} finally {
  await server.close();
}

function api(method, path, body) {
  return server.api(method, `/api${path}`, body);
}

/** Fifty flags by the API, the rest as copies of their rows: the way in is not what is measured. */
async function fill() {
  const small = await api("POST", "/organizations/@current/projects/", { name: "small" });
  const flags = mixedFlags();
  for (const flag of flags) await api("POST", "/projects/1/feature_flags/", flag);
  await api("POST", `/projects/${small.id}/feature_flags/`, flags[1]);
  await server.stop();
  const database = new Database(join(server.data, "metadata.sqlite"));
  const columns = database
    .prepare("select name from pragma_table_info('feature_flags')")
    .all()
    .map(({ name }) => name)
    .filter((name) => name !== "id" && name !== "key");
  database.exec(`
    with recursive copies(n) as (select 1 union all select n + 1 from copies where n < ${FLAGS / flags.length - 1})
    insert into feature_flags (key, ${columns}) select key || '-' || n, ${columns}
      from feature_flags, copies where project_id = 1`);
  database.close();
  await server.start();
  return small;
}

function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}

/** CPU microseconds of the server for each of so many answers, one after another. */
async function cpuOf(count, ask) {
  const before = server.cpuSeconds();
  for (let n = 0; n < count; n++) await ask(n);
  return ((server.cpuSeconds() - before) / count) * 1e6;
}

async function measure() {
  const small = await fill();
  const ask = async (path, body) => {
    const response = await fetch(`${server.url}${path}`, { method: "POST", body });
    const text = await response.text();
    if (response.status !== 200) throw new Error(text);
    return text;
  };
  const person = (token, n, more = {}) =>
    JSON.stringify({
      token,
      distinct_id: `user-${n}`,
      person_properties: PROPERTIES,
      geoip_disable: true,
      ...more,
    });

  const flagsOfAll = Object.keys(JSON.parse(await ask("/flags?v=2", person(PROJECT_KEY, 0))).flags);
  if (flagsOfAll.length !== FLAGS) throw new Error(`${flagsOfAll.length} flags`);
  const { id } = (await api("GET", "/projects/1/feature_flags/?search=bench-3-7&limit=1"))
    .results[0];
  const changes = [];
  for (let n = -3; n < CHANGES; n++) {
    const startedAt = performance.now();
    const filters = { groups: [{ properties: [], rollout_percentage: 50 + n }] };
    await api("PATCH", `/projects/1/feature_flags/${id}/`, { filters });
    if (n >= 0) changes.push(performance.now() - startedAt);
  }

  const definitions = async (etag) => {
    const response = await fetch(`${server.url}/flags/definitions?token=${PROJECT_KEY}`, {
      headers: { authorization: `Bearer ${PERSONAL_KEY}`, ...(etag && { "if-none-match": etag }) },
    });
    await response.arrayBuffer();
    return response;
  };
  const etag = (await definitions()).headers.get("etag");

  const rounds = [];
  for (let round = -1; round < ROUNDS; round++) {
    const all = await cpuOf(ANSWERS_OF_ALL, (n) => ask("/flags?v=2", person(PROJECT_KEY, n)));
    const older = await cpuOf(ANSWERS_OF_ALL, (n) => ask("/decide?v=3", person(PROJECT_KEY, n)));
    const one = { flag_keys_to_evaluate: ["bench-1"] };
    const oneOfMany = await cpuOf(ANSWERS_OF_ONE, (n) =>
      ask("/flags?v=2", person(PROJECT_KEY, n, one)),
    );
    const oneOfOne = await cpuOf(ANSWERS_OF_ONE, (n) =>
      ask("/flags?v=2", person(small.api_token, n, one)),
    );
    const unchanged = await cpuOf(ANSWERS_OF_ONE / 4, async () => {
      const { status } = await definitions(etag);
      if (status !== 304) throw new Error(`definitions answered ${status}`);
    });
    if (round >= 0)
      rounds.push({ all: all / FLAGS, older: older / FLAGS, oneOfMany, oneOfOne, unchanged });
  }
  const of = (name) => median(rounds.map((round) => round[name]));
  return {
    flags: FLAGS,
    changeMs: median(changes),
    slowestChangeMs: Math.max(...changes),
    allMicrosecondsPerFlag: of("all"),
    decideMicrosecondsPerFlag: of("older"),
    oneOfManyMicroseconds: of("oneOfMany"),
    oneOfOneMicroseconds: of("oneOfOne"),
    oneRatio: median(rounds.map(({ oneOfMany, oneOfOne }) => oneOfMany / oneOfOne)),
    unchangedDefinitionsMicroseconds: of("unchanged"),
  };
}
