import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { constants, Script } from "node:vm";
import { boundGarbage } from "./platform/bound-garbage.ts";

/** Name of the program's files beside this one, without endings; set by the bundler. */
declare const PROGRAM: string;

const folder = dirname(fileURLToPath(import.meta.url));
const filename = join(folder, `${PROGRAM}.cjs`);
const codeCache = join(folder, `${PROGRAM}.v8`);

// Before the program is compiled: V8 takes code back only under the settings it was compiled under.
boundGarbage();
// A cache of another V8, or of other settings, is left alone, and everything compiled anew.
const program = new Script(readFileSync(filename, "latin1"), {
  filename,
  ...(existsSync(codeCache) && { cachedData: readFileSync(codeCache) }),
  importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
});
const run: (require: NodeJS.Require, filename: string) => void = program.runInThisContext();
run(createRequire(filename), filename);
