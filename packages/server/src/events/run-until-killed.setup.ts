import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished } from "vitest";

/**
 * Runs a script that tells a number on each line until it is killed: some time after its first line, or
 * by itself. Answers the last number.
 */
export async function runUntilKilled(
  script: URL,
  args: readonly string[],
  afterMs?: number,
): Promise<number> {
  const child = spawn(
    process.execPath,
    ["--import", "tsx", "--conditions=source", fileURLToPath(script), ...args],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  // Where the test is given up, it does not go on for ever.
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  let output = "";
  const ended = new Promise<NodeJS.Signals | null>((resolve) => {
    child.once("close", (_code, signal) => resolve(signal));
  });
  child.stdout.setEncoding("utf8");
  child.stdout.on("data", (text: string) => {
    if (output === "" && afterMs !== undefined) setTimeout(() => child.kill("SIGKILL"), afterMs);
    output += text;
  });
  expect(await ended).toBe("SIGKILL");
  return Number(output.slice(0, output.lastIndexOf("\n")).split("\n").at(-1));
}
