import {
  type DecodedBody,
  decodeBody,
  decodeLargeBody,
  type EncodedBody,
  isLargeBody,
} from "../http/decode-body.ts";
import { Refusal } from "../http/errors.ts";
import { createGate } from "../platform/gate.ts";
import { createSlices } from "../platform/slices.ts";

/** Opens the bodies of capture requests, large ones a few at a time. */
export interface CaptureBodies {
  /**
   * What `work` makes of the decoded body. Where it cannot be read, `undecodable` is told, and the
   * refusal thrown. Throws a {@link Refusal} with 503 where too many large ones, or too large ones, wait already.
   */
  open<Result>(
    body: EncodedBody,
    work: (decoded: DecodedBody) => Promise<Result>,
    undecodable: (refusal: Refusal) => void,
  ): Promise<Result>;
}

/** Two, so that one is worked on while another waits for the disk: each is a hundred megabytes at worst. */
const LARGE_AT_A_TIME = { maxRunning: 2, maxWaiting: 30 };
/** Bytes of large bodies, as they arrived, that wait and are worked on. */
const MAX_HELD_BYTES = 64 * 1024 * 1024;
/** Large ones are decoded for so long before others get their turn. */
const SLICE_MS = 5;

/** @param maxHeldBytes large bodies may have together, unless there is but one; 64 MiB unless given */
export function createCaptureBodies({ maxHeldBytes = MAX_HELD_BYTES } = {}): CaptureBodies {
  const gate = createGate(LARGE_AT_A_TIME);
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
    async open(body, work, undecodable) {
      const told = (error: unknown) => {
        if (error instanceof Refusal) undecodable(error);
        return error;
      };
      if (!isLargeBody(body)) {
        let decoded: DecodedBody;
        try {
          decoded = decodeBody(body, "invalid_payload");
        } catch (error) {
          throw told(error);
        }
        // Not awaited here, so that the body can be given up before its events are stored.
        return work(decoded);
      }
      const done = await inItsTurn(body, async () => {
        const decoding = decodeLargeBody(body, createSlices(SLICE_MS), "invalid_payload");
        return work(
          await decoding.catch((error: unknown) => {
            throw told(error);
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
