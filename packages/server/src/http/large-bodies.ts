import { createSlices } from "../platform/slices.ts";
import type { BodyOpener } from "./body-opener.ts";
import { type DecodedBody, decodeLargeBody, type UnreadableCode } from "./decode-body.ts";
import { createLargeWork } from "./large-work.ts";
import type { EncodedBody } from "./open-body.ts";

/** Works on the large bodies of public requests, a few at a time. */
export interface LargeBodies {
  /**
   * What `work` makes of the decoded body. Rejects as `decodeLargeBody` does, where `unreadable` is
   * told of it before; with a refusal with 503 where too many, or too large ones, wait already.
   */
  open<Result>(
    body: EncodedBody,
    work: (decoded: DecodedBody) => Result | Promise<Result>,
    refusal: { readonly as: UnreadableCode; readonly tell?: (refusal: unknown) => void },
  ): Promise<Result>;
}

/** So that one is worked on while another waits for the disk: each is a hundred megabytes at worst. */
const MAX_RUNNING = 2;
/** One is parsed for so long before others get their turn. */
const SLICE_MS = 5;

/** @param maxHeldBytes bodies may have together, as they arrived, unless there is but one */
export function createLargeBodies({
  opener,
  maxHeldBytes,
}: {
  opener: Pick<BodyOpener, "open">;
  maxHeldBytes?: number;
}): LargeBodies {
  const largeWork = createLargeWork({ maxRunning: MAX_RUNNING, maxHeldBytes });
  return {
    open: (body, work, refusal) =>
      largeWork.through(body.bytes.length, async () => {
        const tools = { slices: createSlices(SLICE_MS), opener };
        const decoding = decodeLargeBody(body, tools, refusal.as);
        return work(
          await decoding.catch((error: unknown) => {
            refusal.tell?.(error);
            throw error;
          }),
        );
      }),
  };
}
