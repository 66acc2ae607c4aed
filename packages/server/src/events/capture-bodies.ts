import { type DecodedBody, decodeSmallBody } from "../http/decode-body.ts";
import { Refusal } from "../http/errors.ts";
import type { LargeBodies } from "../http/large-bodies.ts";
import type { EncodedBody } from "../http/open-body.ts";

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

export function createCaptureBodies(largeBodies: LargeBodies): CaptureBodies {
  return {
    async open(body, work, undecodable) {
      const tell = (error: unknown) => {
        if (error instanceof Refusal && error.status < 500) undecodable(error);
      };
      let decoded: DecodedBody | "large";
      try {
        decoded = decodeSmallBody(body, "invalid_payload");
      } catch (error) {
        tell(error);
        throw error;
      }
      if (decoded === "large") return largeBodies.open(body, work, { as: "invalid_payload", tell });
      // Not awaited here, so that the body can be given up before its events are stored.
      return work(decoded);
    },
  };
}
