import { type Static, Type } from "typebox";
import { wireInstant } from "../http/wire-instant.ts";
import type { WarningTally } from "./ingestion-warning-store.ts";

/** Warnings of one kind from one version of an SDK. */
export const IngestionWarning = Type.Object({
  type: Type.String({
    description:
      "`refused_<code>` for events that were refused, `undecodable_body`, or what was done to an event or its person.",
  }),
  sdk: Type.String(),
  sdk_version: Type.String(),
  count: Type.Integer(),
  first_seen: Type.String(),
  last_seen: Type.String(),
  samples: Type.Array(
    Type.Object({
      at: Type.String(),
      uuid: Type.Optional(Type.String()),
      event: Type.Optional(Type.String()),
      distinct_id: Type.Optional(Type.String()),
      detail: Type.Optional(Type.String()),
    }),
  ),
});

/** The wire form of a tally. */
export function wireWarning(tally: WarningTally): Static<typeof IngestionWarning> {
  return {
    type: tally.type,
    sdk: tally.sdk.name,
    sdk_version: tally.sdk.version,
    count: tally.count,
    first_seen: wireInstant(tally.firstAt),
    last_seen: wireInstant(tally.lastAt),
    samples: tally.samples.map(({ at, uuid, event, distinctId, detail }) => ({
      at: wireInstant(at),
      ...(uuid !== undefined && { uuid }),
      ...(event !== undefined && { event }),
      ...(distinctId !== undefined && { distinct_id: distinctId }),
      ...(detail !== undefined && { detail }),
    })),
  };
}
