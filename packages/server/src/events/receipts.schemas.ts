import { type Static, Type } from "typebox";
import { wireInstant } from "../http/wire-instant.ts";
import type { ReceiptAnswer } from "./receipts.ts";

const Optional = {
  at: Type.Optional(Type.String({ description: "When it was stored, dropped or refused." })),
  position: Type.Optional(Type.Integer({ description: "Position in the log." })),
  dropped_by: Type.Optional(Type.String({ description: "Name of the transformation." })),
  duplicate_of: Type.Optional(
    Type.Union([Type.String(), Type.Null()], {
      description: "UUID of the event that came first with its `$insert_id`.",
    }),
  ),
  code: Type.Optional(Type.String({ description: "Of the refusal." })),
  reason: Type.Optional(Type.String()),
};

/** What became of an event. */
export const EventReceipt = Type.Object({
  uuid: Type.String(),
  outcome: Type.Union([
    Type.Literal("stored"),
    Type.Literal("dropped"),
    Type.Literal("refused"),
    Type.Literal("dead_lettered"),
    Type.Literal("duplicate_of"),
    Type.Literal("queued"),
    Type.Literal("deleted"),
  ]),
  ...Optional,
  changed_by: Type.Array(Type.String(), {
    description: "Names of the transformations that changed it.",
  }),
  duplicates: Type.Integer({ description: "How often it came again." }),
  conflicts: Type.Integer({ description: "How often another event came with its uuid." }),
  attempts: Type.Array(
    Type.Object({
      code: Type.String({ description: "`duplicate`, `conflict` or the code of a refusal." }),
      reason: Type.String(),
      count: Type.Integer(),
      first_at: Type.String(),
      last_at: Type.String(),
    }),
    { description: "Sendings that capture did not take, the latest first." },
  ),
});

/** The wire form of a receipt. */
export function wireReceipt(
  uuid: string,
  { receipt, refused }: ReceiptAnswer,
): Static<typeof EventReceipt> {
  const times = (code: string) =>
    refused.reduce((sum, one) => sum + (one.code === code ? one.times : 0), 0);
  const later = receipt.outcome === "stored" ? receipt.duplicates : [];
  const conflicts = later.filter(({ outcome }) => outcome === "conflict").length;
  const all = receipt.outcome === "stored" ? receipt.duplicateCount : 0;
  return {
    uuid,
    ...outcomeOf(receipt),
    changed_by: receipt.outcome === "stored" ? [...receipt.changedBy] : [],
    duplicates: times("duplicate") + all - conflicts,
    conflicts: times("conflict") + conflicts,
    attempts: refused.map(({ code, detail, times, firstAt, lastAt }) => ({
      code,
      reason: detail,
      count: times,
      first_at: wireInstant(firstAt),
      last_at: wireInstant(lastAt),
    })),
  };
}

function outcomeOf(receipt: ReceiptAnswer["receipt"]) {
  switch (receipt.outcome) {
    case "stored": {
      const { position, storedAt, setAsideBecause } = receipt;
      return {
        outcome: "stored" as const,
        at: wireInstant(storedAt),
        position,
        ...(setAsideBecause !== null && { reason: setAsideBecause }),
      };
    }
    case "dropped": {
      const { position, at, by, reason } = receipt;
      return { outcome: "dropped" as const, at: wireInstant(at), position, dropped_by: by, reason };
    }
    case "dead-lettered": {
      const { position, reason } = receipt;
      return { outcome: "dead_lettered" as const, position, reason };
    }
    case "duplicate-of": {
      const { position, at, uuid } = receipt;
      return {
        outcome: "duplicate_of" as const,
        at: wireInstant(at),
        position,
        duplicate_of: uuid,
      };
    }
    case "refused": {
      const { at, code, reason } = receipt;
      return { outcome: "refused" as const, at: wireInstant(at), code, reason };
    }
    case "queued":
      return {
        outcome: "queued" as const,
        ...(receipt.position !== null && { position: receipt.position }),
      };
    case "deleted":
      return { outcome: "deleted" as const };
  }
}
