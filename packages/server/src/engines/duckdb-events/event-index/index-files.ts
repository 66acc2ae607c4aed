import { open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";

/** What the index does to files while it runs. Each call is durable when it resolves. */
export interface IndexFiles {
  /** Writes a new file. */
  write(path: string, parts: readonly Uint8Array[]): Promise<void>;
  /** Puts a file in the place of another, or of none, in one step. */
  move(from: string, to: string): Promise<void>;
  /** Removes a file that is there, or is not. */
  remove(path: string): Promise<void>;
}

export const indexFiles: IndexFiles = {
  async write(path, parts) {
    const file = await open(path, "w");
    try {
      for (const part of parts) await file.writeFile(part);
      await file.datasync();
    } finally {
      await file.close();
    }
  },
  async move(from, to) {
    await rename(from, to);
    const folder = await open(dirname(to), "r");
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  },
  remove: (path) => rm(path, { force: true }),
};
