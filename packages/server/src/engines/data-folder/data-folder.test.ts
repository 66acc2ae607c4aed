import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DataFolderInUse, folderHolder, openDataFolder } from "./data-folder.ts";

const now = new Date("2026-03-01T10:00:00.000Z");
let home: string;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "hedgerow-folder-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

describe("data folder", () => {
  test("[CL-6] is created with its parents, for its owner only", () => {
    const path = join(home, "deep", "data");
    const folder = openDataFolder(path, now);
    expect(statSync(path).mode & 0o777).toBe(0o700);
    folder.release();
  });

  test.runIf(existsSync("/proc/self"))(
    "[CL-6] that cannot be created is refused with its name",
    () => {
      expect(() => openDataFolder("/proc/none/data", now)).toThrow("'/proc/none'");
    },
  );

  test("[CL-7] is taken by one at a time and free again after release", () => {
    const first = openDataFolder(home, now);
    expect(() => openDataFolder(home, now)).toThrow(DataFolderInUse);
    expect(folderHolder(home)).toEqual({ pid: process.pid, since: now.toISOString() });
    first.announce("http://127.0.0.1:8123");
    expect(folderHolder(home)).toMatchObject({ pid: process.pid, url: "http://127.0.0.1:8123" });
    first.release();
    expect(folderHolder(home)).toBe("nobody");
    openDataFolder(home, now).release();
  });

  test("[CL-7] another process is refused with the folder and the holder, until the holder is killed", async () => {
    const child = await holdInAnotherProcess(home);
    expect(() => openDataFolder(home, now)).toThrow(
      new RegExp(`the data folder ${home} is in use by another hedgerow \\(process ${child.pid} `),
    );
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
    openDataFolder(home, now).release();
  });
});

/** A process that has opened the folder and sits in it. */
async function holdInAnotherProcess(path: string): Promise<ChildProcess> {
  const module = fileURLToPath(new URL("./data-folder.ts", import.meta.url));
  const script = `
    const { openDataFolder } = await import(${JSON.stringify(module)});
    openDataFolder(process.argv[1], new Date());
    console.log("held");
    setInterval(() => {}, 1000);
  `;
  const child = spawn(
    process.execPath,
    ["--import", "tsx", "--input-type=module", "--eval", script, path],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  await once(child.stdout, "data");
  return child;
}
