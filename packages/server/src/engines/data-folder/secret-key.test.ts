import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openSecretKey } from "./secret-key.ts";

describe("the key of encrypted payloads", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "hedgerow-key-"));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("is made once, for its owner's eyes only, and found again", () => {
    const path = join(folder, "key");
    const key = openSecretKey(path, randomBytes);
    expect(key).toHaveLength(32);
    expect(openSecretKey(path, () => Buffer.alloc(32)).equals(key)).toBe(true);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(["key"]);
  });

  test("is never written over", () => {
    const path = join(folder, "damaged");
    writeFileSync(path, "half a ke");
    expect(() => openSecretKey(path, randomBytes)).toThrow(/does not hold a key/);
  });
});
