// Runs every benchmark and prints one table of ratios: ours against the baseline of the same run.
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));

function run(script, env = {}) {
  const done = spawnSync(process.execPath, [join(here, script)], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "inherit"],
    encoding: "utf8",
    maxBuffer: 1e8,
  });
  if (done.status !== 0) throw new Error(`${script} failed`);
  return JSON.parse(done.stdout.slice(done.stdout.indexOf("{")));
}

const number = (value, digits = 2) => value.toFixed(digits);
const thousands = (value) => `${Math.round(value / 1000)}k/s`;
const perSecond = (value) => `${Math.round(value).toLocaleString("en")}/s`;

const engine = run("engine.bench.mjs");
const decide = run("decide.bench.mjs");
const cohorts = run("cohorts.bench.mjs");
const process_ = run("process.bench.mjs");
const capture = run("capture.bench.mjs");
const storing = run("storing.bench.mjs", { BENCH_STORING_INDEX_ROUND: "300000" });
const scale = run("flags-at-scale.bench.mjs");
const experiments = run("experiments.bench.mjs");
const transformations = run("transformations.bench.mjs");

const fastest = engine.rows
  .filter((row) => row.name !== "hedgerow")
  .toSorted((a, b) => b.opsPerSecond - a.opsPerSecond)[0];
const ours = engine.rows.find((row) => row.name === "hedgerow");
const rows = [
  ...engine.rows
    .filter((row) => row.name !== "hedgerow")
    .map((row) => [
      `One flag in process, against ${row.name}`,
      `${thousands(ours.opsPerSecond)} : ${thousands(row.opsPerSecond)}`,
      `${number(ours.opsPerSecond / row.opsPerSecond, 1)}×${row === fastest ? " (the fastest of them)" : ""}`,
    ]),
  ...[
    ["properties in the request", decide.sent],
    ["stored properties", decide.stored],
  ].flatMap(([what, { ours, baseline, ratio, cpuRatio }]) => [
    [
      `\`decide\` over HTTP, 50 flags, ${what}, against a bare \`node:http\` server sending the same bytes`,
      `${thousands(ours.perSecond)} : ${thousands(baseline.perSecond)}`,
      `${number(ratio)}×`,
    ],
    [
      "… CPU time of the server for each",
      `${Math.round(ours.cpuMicroseconds)} µs : ${Math.round(baseline.cpuMicroseconds)} µs`,
      `${number(cpuRatio)}×`,
    ],
  ]),
  ...[
    ["gzip batches of 50 events of 1 kB, 8 connections", capture.batches, capture.bareBatches],
    ["single events, 32 connections", capture.singles, capture.bareSingles],
  ].flatMap(([what, ours, bare]) => [
    [
      `Durable capture, ${what}, events acknowledged, against a bare \`node:http\` server that decompresses, parses and appends to a file with fsync`,
      `${perSecond(ours.perSecond)} : ${perSecond(bare.perSecond)}`,
      `${number(ours.perSecond / bare.perSecond)}×`,
    ],
    [
      "… CPU time of the server for each event, all threads, until it is acknowledged and most of it stored",
      `${Math.round(ours.cpuMicroseconds)} µs : ${Math.round(bare.cpuMicroseconds)} µs`,
      `${number(ours.cpuMicroseconds / bare.cpuMicroseconds)}×`,
    ],
  ]),
  [
    "Storing behind capture at the end of those batches",
    `${number(capture.batches.behindSeconds, 1)} s`,
    "",
  ],
  ...[
    ["of persons without new events", "bystanders"],
    ["of persons whose events are being captured, which are waited for", "involved"],
  ].map(([whom, part]) => [
    `\`decide\` p99 during those batches, ${whom}, against idle`,
    `${number(capture.batches.decide[part].p99Ms, 1)} ms : ${number(capture.idle[part].p99Ms, 1)} ms`,
    `${number(capture.batches.decide[part].p99Ms / capture.idle[part].p99Ms, 1)}×`,
  ]),
  [
    "Resident memory during those batches: halfway, at the end, at most",
    ["halfwayMb", "endMb", "peakMb"]
      .map((at) => `${Math.round(capture.batches[at])} MB`)
      .join(", "),
    "",
  ],
  ...[
    ["Storing an event of 1 kB, CPU time of all threads: at first, and", storing.store.all],
    ["… of the main thread: at first, and", storing.store.main],
    [
      "… of the index of what is taken, for uuid and `$insert_id`: at first, and",
      storing.index.claiming,
    ],
  ].map(([what, { first, many, ratio }]) => [
    `${what} from ${storing.events / 1e6} million on`,
    `${number(first, 1)} µs : ${number(many, 1)} µs`,
    `${number(ratio)}×`,
  ]),
  [
    "A change in a project of 10,000 flags, until it is live",
    `${number(scale.changeMs, 0)} ms`,
    "",
  ],
  [
    "All 10,000 flags of a person by `decide`, CPU time of the server per flag",
    `${number(scale.decideMicrosecondsPerFlag)} µs`,
    "",
  ],
  ["… by `flags`", `${number(scale.allMicrosecondsPerFlag)} µs`, ""],
  [
    "One flag of them, CPU time against a project of only that flag",
    `${Math.round(scale.oneOfManyMicroseconds)} µs : ${Math.round(scale.oneOfOneMicroseconds)} µs`,
    `${number(scale.oneRatio)}×`,
  ],
  [
    "Definitions of all of them, unchanged (304), CPU time",
    `${Math.round(scale.unchangedDefinitionsMicroseconds)} µs`,
    "",
  ],
  [
    "Membership of a static cohort of 1,000,000, CPU time of a look-up, remembered and from the database",
    `${number(cohorts.checkMicroseconds, 1)} µs, ${Math.round(cohorts.firstCheckMicroseconds)} µs`,
    "",
  ],
  ["Members added to it", `${thousands(cohorts.addedPerSecond)}`, ""],
  [
    "One metric of an experiment over 10,000,000 events, 200,000 persons, cold, CPU time against SQL by hand for the same sums",
    `${number(experiments.cpuMs.one / 1000)} s : ${number(experiments.cpuMs.hand / 1000)} s`,
    `${number(experiments.oneRatio)}×`,
  ],
  [
    "Ten metrics of it together, against one",
    `${number(experiments.cpuMs.ten / 1000)} s : ${number(experiments.cpuMs.one / 1000)} s`,
    `${number(experiments.tenRatio)}×`,
  ],
  [
    "`decide` p99 while results are computed, against idle",
    `${number(experiments.decide.busyP99Ms, 1)} ms : ${number(experiments.decide.idleP99Ms, 1)} ms`,
    `${number(experiments.decide.busyP99Ms / experiments.decide.idleP99Ms, 1)}×`,
  ],
  [
    "One transformation on an event of 1 kB, CPU time of all threads, against parsing and writing it once in the same machine",
    `${Math.round(transformations.microsPerEvent)} µs : ${Math.round(transformations.baselineMicros)} µs`,
    `${number(transformations.microsPerEvent / transformations.baselineMicros)}×`,
  ],
  [
    "… of the main thread and of the sandbox's",
    `${Math.round(transformations.mainThreadMicros)} µs + ${Math.round(transformations.sandboxThreadMicros)} µs`,
    "",
  ],
  ...[0, 1, 3].map((count) => {
    const { ackedPerSecond, storedPerSecond } = transformations.server[count];
    return [
      `Durable capture with ${count} transformations enabled, acknowledged : stored`,
      `${perSecond(ackedPerSecond)} : ${perSecond(storedPerSecond)}`,
      "",
    ];
  }),
  [
    "A chain of three transformations until it works",
    `${Math.round(transformations.chainOfThreeMs)} ms`,
    "",
  ],
  [
    "… throughput of a project beside one whose transformation loops, against alone",
    "",
    `${number(transformations.throughputBesideLoop)}×`,
  ],
  ["Resident memory, idle, with data", `${Math.round(process_.idleMb)} MB`, ""],
  ["Start to ready, with data", `${Math.round(process_.readyMs)} ms`, ""],
];
const table = [
  "| What | Measured | Ratio |",
  "|---|---|---|",
  ...rows.map((row) => `| ${row.join(" | ")} |`),
  "",
  `One run on ${cpus().length} cores (${cpus()[0].model.trim()}), Node ${process.versions.node}; load generator and server share them.`,
].join("\n");
console.log(table);
writeFileSync(join(here, "last-run.md"), `${table}\n`);
