import { type Static, Type } from "typebox";
import type { Captured, RejectedEvent } from "./capture.ts";

export const CaptureQuery = Type.Object({
  compression: Type.Optional(Type.String({ description: "gzip, gzip-js, lz64 or base64." })),
  beacon: Type.Optional(Type.String({ description: "`1`: the answer is 204 without a body." })),
  _: Type.Optional(Type.String({ description: "When the client sent it: epoch milliseconds." })),
  sent_at: Type.Optional(Type.String({ description: "The same." })),
  data: Type.Optional(Type.String({ description: "The payload of a GET." })),
  api_key: Type.Optional(Type.String()),
  token: Type.Optional(Type.String()),
});

/** What became of a request of which something was taken (decision 14). */
export const CaptureAnswer = Type.Object({
  status: Type.Literal(1),
  rejected: Type.Optional(
    Type.Array(
      Type.Object({
        index: Type.Integer({ description: "Index in the batch as sent." }),
        uuid: Type.Optional(Type.String({ format: "uuid" })),
        code: Type.String(),
        detail: Type.String({ description: "Names the field." }),
      }),
      { description: "Events that were not taken; absent when all were." },
    ),
  ),
  duplicates: Type.Optional(
    Type.Array(
      Type.Object({
        index: Type.Integer({ description: "Index in the batch as sent." }),
        uuid: Type.String({ format: "uuid" }),
        code: Type.Union([Type.Literal("duplicate"), Type.Literal("conflict")], {
          description: "`conflict`: the uuid belongs to another event, which stays.",
        }),
      }),
      { description: "Events whose uuid is taken already; absent where there are none." },
    ),
  ),
  unlisted: Type.Optional(
    Type.Integer({
      description:
        "How many more there are than each list has room for; absent where both are whole.",
    }),
  ),
});

/** Most events that each list tells of: what is sent in a hundred bytes is not to be answered with megabytes. */
const MAX_LISTED = 10_000;

type WireRejected = NonNullable<Static<typeof CaptureAnswer>["rejected"]>[number];

/** The wire form of what became of a request: what was taken needs no word. */
export function wireCaptured({ rejected, duplicates }: Captured): Static<typeof CaptureAnswer> {
  const unlisted =
    Math.max(0, rejected.length - MAX_LISTED) + Math.max(0, duplicates.length - MAX_LISTED);
  return {
    status: 1,
    ...(rejected.length > 0 && { rejected: rejected.slice(0, MAX_LISTED).map(wireRejected) }),
    ...(duplicates.length > 0 && { duplicates: duplicates.slice(0, MAX_LISTED) }),
    ...(unlisted > 0 && { unlisted }),
  };
}

function wireRejected({ index, uuid, code, detail }: RejectedEvent): WireRejected {
  return { index, ...(uuid !== undefined && { uuid }), code, detail };
}
