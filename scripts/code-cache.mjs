// Writes what V8 compiles of the bundled program during one start, for later starts to begin with.
// Run by `bundle.mjs`, as `node code-cache.mjs <program> <cache>`; it runs a server on data of its own.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { constants, Script } from "node:vm";
import { boundGarbage } from "../packages/server/dist/platform/bound-garbage.js";

const [program, cache] = process.argv.slice(2);
const data = mkdtempSync(join(tmpdir(), "hedgerow-code-cache-"));
process.once("exit", () => rmSync(data, { recursive: true, force: true }));

// As `bundled-main.ts` does: V8 takes code back only under the settings it was compiled under.
boundGarbage();
const compile = (cachedData) =>
  new Script(readFileSync(program, "latin1"), {
    filename: program,
    ...(cachedData && { cachedData }),
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
const script = compile();
process.argv.splice(2, 2, "start", "--port", "0", "--data", data);
process.once("message", () => {
  const code = script.createCachedData();
  if (compile(code).cachedDataRejected) throw new Error("V8 does not take its code back");
  writeFileSync(cache, code);
  process.disconnect();
});
process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
script.runInThisContext()(createRequire(program), program);
