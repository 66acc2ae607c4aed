// Compiles the sources and bundles them. Optimizing the engine of transformations needs nothing that
// is compiled, and takes longer than anything else: it begins with the compiler.
import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { optimizedEngine } from "./optimize-engine.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** Ends with the process where that fails. */
async function run(script, ...args) {
  const child = spawn(process.execPath, [join(root, script), ...args], {
    cwd: root,
    stdio: ["ignore", 2, 2],
  });
  const code = await new Promise((resolve) => child.once("close", resolve));
  if (code !== 0) process.exit(code ?? 1);
}

// The bundle takes what it made, and tells where it could not be made.
const engine = optimizedEngine().catch(() => {});
await run("node_modules/typescript/bin/tsc", "-b");
await engine;
await run("scripts/bundle.mjs");
