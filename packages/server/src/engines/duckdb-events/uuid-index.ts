import type { Worker } from "node:worker_threads";
import { openThread } from "../../threads/open-thread.ts";
import type { Claims, FromUuidIndexThread, ToUuidIndexThread } from "./uuid-index-file.ts";

/** A log position that wants a uuid for its event. */
export interface Claim {
  readonly projectId: number;
  /** With dashes, lower case. */
  readonly uuid: string;
  readonly position: number;
}

/**
 * Decides which event has a uuid: the first position that claims it, for ever. Repeating a claim
 * gives the same answer, so a batch may be repeated after a crash between claim and storage.
 */
export interface UuidIndex {
  /** Greatest position that ever claimed anything. */
  readonly end: number;
  /** Durable when it resolves; tells for each claim, in order, whether its position has the uuid. */
  claim(claims: readonly Claim[]): Promise<Uint8Array>;
  close(): Promise<void>;
}

interface Call {
  readonly resolve: (won: Uint8Array) => void;
  readonly reject: (error: Error) => void;
}

export async function openUuidIndex(path: string): Promise<UuidIndex> {
  const calls = new Map<number, Call>();
  let lastId = 0;
  let end = 0;
  let failure: Error | undefined;
  const thread: Worker = openThread(new URL("./uuid-index-thread.ts", import.meta.url), path);

  function fail(error: Error): void {
    failure = error;
    for (const { reject } of calls.values()) reject(error);
    calls.clear();
  }

  await new Promise<void>((resolve, reject) => {
    thread.on("message", (message: FromUuidIndexThread) => {
      if (message.kind === "opened") {
        end = message.end;
        resolve();
        return;
      }
      const call = calls.get(message.id);
      calls.delete(message.id);
      if (message.kind === "claimed") {
        end = Math.max(end, message.end);
        call?.resolve(message.won);
      } else call?.reject(new Error(`uuids cannot be claimed: ${message.reason}`));
    });
    thread.on("error", (error) => {
      fail(error);
      reject(error);
    });
    thread.on("exit", () => fail(new Error("the thread of the uuid index ended")));
  });

  return {
    get end() {
      return end;
    },
    claim(claims) {
      if (failure) return Promise.reject(failure);
      return new Promise((resolve, reject) => {
        lastId++;
        calls.set(lastId, { resolve, reject });
        const message: ToUuidIndexThread = { id: lastId, claims: pack(claims) };
        thread.postMessage(message);
      });
    },
    async close() {
      if (failure) return;
      const exited = new Promise((resolve) => thread.once("exit", resolve));
      thread.postMessage("close");
      await exited;
    },
  };
}

function pack(claims: readonly Claim[]): Claims {
  const uuids = Buffer.alloc(16 * claims.length);
  claims.forEach(({ uuid }, index) => {
    uuids.write(uuid.replaceAll("-", ""), 16 * index, "hex");
  });
  return {
    projectIds: Float64Array.from(claims, ({ projectId }) => projectId),
    positions: Float64Array.from(claims, ({ position }) => position),
    uuids,
  };
}
