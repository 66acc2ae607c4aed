import type { Worker } from "node:worker_threads";
import Database from "libsql";
import { openThread } from "../../platform/open-thread.ts";
import { StoreUnavailable } from "../../platform/store-unavailable.ts";
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
  /** The position that has a uuid; its event may not be stored yet. */
  find(projectId: number, uuid: string): Promise<number | undefined>;
  /** Whether some position has a uuid; answers at once. */
  isTaken(projectId: number, uuid: string): boolean;
  close(): Promise<void>;
}

type Answer = Exclude<FromUuidIndexThread, { kind: "opened" | "failed" }>;

interface Call {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: Error) => void;
}

/** Opens an index in a thread of its own. When the thread dies, all further calls reject. */
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
      if (message.kind === "failed") {
        // It takes any claim: what fails is its file.
        call?.reject(new StoreUnavailable(`the uuid index failed: ${message.reason}`));
      } else call?.resolve(message);
    });
    thread.on("error", (error) => {
      fail(error);
      reject(error);
    });
    thread.on("exit", () => fail(new Error("the thread of the uuid index ended")));
  });

  const reader = new Database(path);
  const taken = reader.prepare("select 1 as taken from uuids where project_id = ? and uuid = ?");

  function ask(messageOf: (id: number) => ToUuidIndexThread): Promise<Answer> {
    if (failure) return Promise.reject(failure);
    return new Promise((resolve, reject) => {
      lastId++;
      calls.set(lastId, { resolve, reject });
      thread.postMessage(messageOf(lastId));
    });
  }

  return {
    get end() {
      return end;
    },
    async claim(claims) {
      const packed = pack(claims);
      const answer = await ask((id) => ({ kind: "claim", id, claims: packed }));
      if (answer.kind !== "claimed") throw new Error("the uuid index answered something else");
      end = Math.max(end, answer.end);
      return answer.won;
    },
    async find(projectId, uuid) {
      const bytes = Buffer.from(uuid.replaceAll("-", ""), "hex");
      const answer = await ask((id) => ({ kind: "find", id, projectId, uuid: bytes }));
      if (answer.kind !== "found") throw new Error("the uuid index answered something else");
      return answer.position;
    },
    isTaken: (projectId, uuid) =>
      taken.all(projectId, Buffer.from(uuid.replaceAll("-", ""), "hex")).length > 0,
    async close() {
      reader.close();
      if (failure) return;
      const exited = new Promise((resolve) => thread.once("exit", resolve));
      thread.postMessage({ kind: "close" } satisfies ToUuidIndexThread);
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
