import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test } from "vitest";

const MODULE = fileURLToPath(new URL("end-with-us.ts", import.meta.url));
const SCRIPT = `
  import { spawn } from "node:child_process";
  import { endWithUs } from ${JSON.stringify(MODULE)};
  const child = spawn(process.execPath, ["-e", "for (;;);"], { stdio: "ignore" });
  endWithUs(child);
  process.on("SIGUSR2", () => child.kill());
  child.on("exit", (code, signal) => console.log(signal));
  console.log(child.pid);
`;

describe.skipIf(process.platform === "win32")("a child process that never ends by itself", () => {
  let parent: ChildProcess | undefined;
  let pid = 0;
  afterEach(() => {
    parent?.kill("SIGKILL");
    if (isThere(pid)) process.kill(pid, "SIGKILL");
  });

  async function begin() {
    parent = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", SCRIPT], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = await once(parent.stdout as NonNullable<typeof parent.stdout>, "data");
    pid = Number(line);
    expect(isThere(pid)).toBe(true);
    return parent;
  }

  test("ends when the process that began it is killed", async () => {
    (await begin()).kill("SIGKILL");
    await expect.poll(() => isThere(pid)).toBe(false);
  });

  test("can be ended as any other, and its process goes on to its own end", async () => {
    const running = await begin();
    const ended = once(running, "exit");
    running.kill("SIGUSR2");
    const [told] = await once(running.stdout as NonNullable<typeof running.stdout>, "data");
    expect(String(told)).toBe("SIGTERM\n");
    expect(await ended).toEqual([0, null]);
  });
});

function isThere(pid: number): boolean {
  try {
    return pid > 0 && process.kill(pid, 0);
  } catch {
    return false;
  }
}
