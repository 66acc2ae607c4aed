// QuickJS as its package ships it is built to be small: nearly nothing is inlined. Inlined, the code
// of transformations costs a fifth less. Takes a quarter of a minute, so what it made is kept.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const fromServer = createRequire(join(root, "packages/server/package.json"));
const OPTIMIZER = "binaryen/bin/wasm-opt";

const OPTIONS = [
  // What the engine's module uses of WebAssembly.
  "--enable-bulk-memory",
  "--enable-multivalue",
  "--enable-mutable-globals",
  "--enable-nontrapping-float-to-int",
  "--enable-sign-ext",
  "-O2",
  "--always-inline-max-function-size=30",
  "--flexible-inline-max-function-size=30",
  "--one-caller-inline-max-function-size=400",
];

/** The path of the optimized module; throws where it cannot be made. */
export async function optimizedEngine() {
  const source = fromServer.resolve("@jitl/quickjs-wasmfile-release-sync/wasm");
  const optimizer = join(root, "node_modules", OPTIMIZER);
  const { version } = JSON.parse(readFileSync(join(root, "node_modules/binaryen/package.json")));
  const hash = createHash("sha256")
    .update(readFileSync(source))
    .update([version, ...OPTIONS].join(" "));
  const folder = join(root, "node_modules/.cache/hedgerow");
  const made = join(folder, `engine-${hash.digest("hex").slice(0, 12)}.wasm`);
  if (existsSync(made)) return made;
  mkdirSync(folder, { recursive: true });
  const draft = `${made}-${process.pid}`;
  await run([optimizer, source, ...OPTIONS, "-o", draft]);
  renameSync(draft, made);
  return made;
}

function run(args) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
    let output = "";
    child.stderr.on("data", (chunk) => {
      output += chunk;
    });
    child.once("error", reject);
    child.once("close", (code) => {
      if (code === 0) resolve();
      else reject(new Error(`the optimizer ended with ${code}: ${output.slice(0, 500)}`));
    });
  });
}
