import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { fullDiskReason } from "./full-disk.ts";

const folder = join(tmpdir(), "hedgerow-not-there", "data");

it.each([
  [Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" })],
  [new Error("cannot be used", { cause: Object.assign(new Error("x"), { code: "SQLITE_FULL" }) })],
  [{ code: "SQLITE_FULL", rawCode: 13 }],
  [new Error("IO Error: Could not write file: No space left on device")],
])("[CL-17] a full disk is told with its folder and what to do: %j", async (error) => {
  expect(await fullDiskReason(error, folder)).toMatch(
    new RegExp(
      `^the disk of the data folder ${folder} is full \\(\\S+ MB free\\): make room for 200 MB`,
    ),
  );
});

it.each([
  [new Error("anything")],
  [Object.assign(new Error("disk I/O error"), { code: "SQLITE_IOERR" })],
  [Object.assign(new Error("refused"), { code: "ECONNREFUSED" })],
  ["a text"],
  [null],
])("[CL-17] other failures are not taken for one while there is room: %j", async (error) => {
  expect(await fullDiskReason(error, folder)).toBeUndefined();
});
