import { createGate } from "../platform/gate.ts";
import { createSlices } from "../platform/slices.ts";
import type { BodyOpener } from "./body-opener.ts";
import { type DecodedBody, decodeLargeBody, type UnreadableCode } from "./decode-body.ts";
import { Refusal } from "./errors.ts";
import type { EncodedBody } from "./open-body.ts";

/** Works on the large bodies of public requests, a few at a time. */
export interface LargeBodies {
  /**
   * What `work` makes of the decoded body. Rejects as `decodeLargeBody` does, where `unreadable` is
   * told of it before; with a {@link Refusal} with 503 where too many, or too large ones, wait already.
   */
  open<Result>(
    body: EncodedBody,
    work: (decoded: DecodedBody) => Result | Promise<Result>,
    refusal: { readonly as: UnreadableCode; readonly tell?: (refusal: unknown) => void },
  ): Promise<Result>;
}

/** Two, so that one is worked on while another waits for the disk: each is a hundred megabytes at worst. */
const AT_A_TIME = { maxRunning: 2, maxWaiting: 30 };
/** Bytes of bodies, as they arrived, that wait and are worked on. */
const MAX_HELD_BYTES = 64 * 1024 * 1024;
/** One is parsed for so long before others get their turn. */
const SLICE_MS = 5;

/** @param maxHeldBytes bodies may have together, unless there is but one; 64 MiB unless given */
export function createLargeBodies({
  opener,
  maxHeldBytes = MAX_HELD_BYTES,
}: {
  opener: Pick<BodyOpener, "open">;
  maxHeldBytes?: number;
}): LargeBodies {
  const gate = createGate(AT_A_TIME);
  let heldBytes = 0;

  /** The work's result; `"full"` when too much waits already. */
  async function inItsTurn<Result>(
    { bytes }: EncodedBody,
    work: () => Promise<Result>,
  ): Promise<Result | "full"> {
    if (heldBytes > 0 && heldBytes + bytes.length > maxHeldBytes) return "full";
    heldBytes += bytes.length;
    try {
      return await gate.through(work);
    } finally {
      heldBytes -= bytes.length;
    }
  }

  return {
    async open(body, work, refusal) {
      const done = await inItsTurn(body, async () => {
        const tools = { slices: createSlices(SLICE_MS), opener };
        const decoding = decodeLargeBody(body, tools, refusal.as);
        return work(
          await decoding.catch((error: unknown) => {
            refusal.tell?.(error);
            throw error;
          }),
        );
      });
      if (done !== "full") return done;
      throw new Refusal("unavailable", "Too many large requests at a time. Please try again.", {
        headers: { "retry-after": "1" },
      });
    },
  };
}
