import { type Static, Type } from "typebox";
import { Refusal } from "../http/errors.ts";
import { wireInstant } from "../http/wire-instant.ts";
import { MapOf } from "../http/wire-schemas.ts";
import { isUuid } from "../http/wire-uuid.ts";
import type { ChosenLetters, Replay } from "./dead-letters.ts";
import type { DeadLetter as Letter } from "./event-store.ts";

/** An event that could not be processed, on the wire. */
export const DeadLetter = Type.Object({
  id: Type.Integer({ description: "Position in the log." }),
  reason: Type.String(),
  uuid: Type.String(),
  event: Type.String(),
  distinct_id: Type.String(),
  properties: MapOf(Type.Unknown()),
  timestamp: Type.String(),
  received_at: Type.String(),
});

export const ReplayBody = Type.Object({
  ids: Type.Optional(
    Type.Union(
      [
        Type.Array(Type.Union([Type.Integer(), Type.String()]), { minItems: 1, maxItems: 1000 }),
        Type.Null(),
      ],
      { description: "Ids or uuids of the letters; all letters of the project unless given." },
    ),
  ),
});

export const ReplayAnswer = Type.Object({
  replayed: Type.Integer(),
  unknown: Type.Array(Type.Union([Type.Integer(), Type.String()])),
});

export function wireLetter({ position, reason, event }: Letter): Static<typeof DeadLetter> {
  return {
    id: position,
    reason,
    uuid: event.uuid,
    event: event.event,
    distinct_id: event.distinctId,
    properties: event.properties,
    timestamp: wireInstant(event.timestamp),
    received_at: wireInstant(event.receivedAt),
  };
}

/** The letters a body names. Throws a {@link Refusal} for what is neither an id nor a uuid. */
export function chosenLetters({ ids }: Static<typeof ReplayBody>): ChosenLetters {
  if (!ids) return "all";
  return ids.map((id) => {
    const chosen = readChosen(String(id));
    if (chosen !== undefined) return chosen;
    throw new Refusal("invalid_input", "Must be ids or uuids of dead letters.", { attr: "ids" });
  });
}

/** A position or uuid in text; `undefined` for anything else. */
export function readChosen(text: string): number | string | undefined {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  return isUuid(text) ? text.toLowerCase() : undefined;
}

export function wireReplay({ replayed, unknown }: Replay): Static<typeof ReplayAnswer> {
  return { replayed, unknown: [...unknown] };
}
