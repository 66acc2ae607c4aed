import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Bundles the server under test, so that what runs is always what its sources say. */
export default function setup(): void {
  const script = fileURLToPath(new URL("../../../scripts/bundle.mjs", import.meta.url));
  const done = spawnSync(process.execPath, [script], { stdio: "inherit" });
  if (done.status !== 0) throw new Error("the server under test could not be built");
}
