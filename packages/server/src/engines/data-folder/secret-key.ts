import { closeSync, fsyncSync, linkSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";

const KEY_BYTES = 32;

/**
 * The key in a file, in hexadecimal digits: made and made durable where there is none yet, readable
 * by its owner only. Throws for a file that holds something else, which is never written over.
 */
export function openSecretKey(path: string, randomBytes: (size: number) => Buffer): Buffer {
  const found = readKey(path);
  if (found) return found;
  // Written aside and linked: nobody ever reads half a key, and of two who make one the first wins.
  const draft = `${path}.${process.pid}`;
  const file = openSync(draft, "w", 0o600);
  try {
    writeSync(file, `${randomBytes(KEY_BYTES).toString("hex")}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  try {
    linkSync(draft, path);
  } catch (error) {
    if (!isCode(error, "EEXIST")) throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  const key = readKey(path);
  if (!key) throw new Error(`${path} is gone`);
  return key;
}

function readKey(path: string): Buffer | undefined {
  let text: string;
  try {
    text = readFileSync(path, "utf8").trim();
  } catch (error) {
    if (isCode(error, "ENOENT")) return undefined;
    throw error;
  }
  const isKey = new RegExp(`^[0-9a-f]{${2 * KEY_BYTES}}$`, "i").test(text);
  if (!isKey) throw new Error(`${path} does not hold a key of ${KEY_BYTES} bytes`);
  return Buffer.from(text, "hex");
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
