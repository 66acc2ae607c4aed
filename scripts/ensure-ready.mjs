// Makes the checkout ready to run: installs when the lockfile changed, builds when a source file
// changed. Silent and quick when neither did, so it can stand before every command.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const stampFile = join(root, "node_modules", ".hedgerow-ready");
const builders = ["build", "bundle", "code-cache", "optimize-engine"].map((name) =>
  join(root, `scripts/${name}.mjs`),
);
const installOnly = process.argv.includes("--install-only");

function run(command, args) {
  const windows = process.platform === "win32";
  const done = spawnSync(command, args, { cwd: root, stdio: ["ignore", 2, 2], shell: windows });
  if (done.status !== 0) process.exit(done.status ?? 1);
}

function* buildInputs(directory) {
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) yield* buildInputs(path);
    else if (/\.ts$/.test(entry.name) && !/\.(test|contract)\.ts$/.test(entry.name)) yield path;
  }
}

function lockHash() {
  return createHash("sha256")
    .update(readFileSync(join(root, "package-lock.json")))
    .digest("hex");
}

function sourceHash() {
  const hash = createHash("sha256");
  for (const path of builders) hash.update(readFileSync(path));
  for (const workspace of ["core", "server"]) {
    for (const path of buildInputs(join(root, "packages", workspace, "src"))) {
      const { mtimeMs, size } = statSync(path);
      hash.update(`${path}:${mtimeMs}:${size}\n`);
    }
  }
  return hash.digest("hex");
}

const stamp = existsSync(stampFile) ? JSON.parse(readFileSync(stampFile, "utf8")) : {};
const lock = lockHash();
if (stamp.lock !== lock) {
  console.error("hedgerow: installing dependencies");
  run("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
}
let sources = stamp.sources;
if (!installOnly) {
  sources = sourceHash();
  if (stamp.sources !== sources || !existsSync(join(root, "packages/server/dist/bundle/main.js"))) {
    if (stamp.sources === undefined) console.error("hedgerow: building");
    run(process.execPath, [builders[0]]);
  }
}
if (stamp.lock !== lock || stamp.sources !== sources) {
  writeFileSync(stampFile, JSON.stringify({ lock, sources }));
}
