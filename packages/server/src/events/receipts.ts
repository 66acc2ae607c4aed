import type { EventLog } from "./event-log.ts";
import type { EventReceipt, EventStore } from "./event-store.ts";
import { reachNow } from "./reach-now.ts";
import type { RefusedSendings } from "./refusal-store.ts";
import type { Refusals } from "./refusals.ts";

/** What became of an event, as far as anything knows of it. */
export type FullReceipt =
  | EventReceipt
  /** Not taken by capture, and no event has its uuid. */
  | {
      readonly outcome: "refused";
      readonly at: Date;
      readonly code: string;
      readonly reason: string;
    }
  /** Durable in the log, not stored yet; without a position while it waits for transformations. */
  | { readonly outcome: "queued"; readonly position: number | null }
  /** It was stored; its person's events were deleted since. */
  | { readonly outcome: "deleted" };

export interface ReceiptAnswer {
  readonly receipt: FullReceipt;
  /** Sendings that capture did not take, the latest first: refused ones, duplicates and conflicts. */
  readonly refused: readonly RefusedSendings[];
}

export interface ReceiptDeps {
  readonly events: Pick<EventStore, "receipt" | "reached" | "position" | "known">;
  readonly log: Pick<EventLog, "end" | "find" | "lanes">;
  readonly refusals: Pick<Refusals, "find">;
}

/** Receipts answer with what is stored after this long, should storing lag behind. */
const MAX_WAIT_MS = 2000;

/** Tells what became of the event with a uuid; `undefined` where nothing knows it. */
export async function findReceipt(
  { events, log, refusals }: ReceiptDeps,
  projectId: number,
  uuid: string,
): Promise<ReceiptAnswer | undefined> {
  await reachNow({ events, log }, projectId, MAX_WAIT_MS);
  const refused = await refusals.find(projectId, uuid);
  // A lane may hold gigabytes: it is looked through last, and what moves on meanwhile is found then.
  const passed = await findPassed({ events, log }, projectId, uuid);
  if (passed) return { receipt: passed, refused };
  if (await log.lanes.holds({ projectId, uuid })) {
    return { receipt: { outcome: "queued", position: null }, refused };
  }
  const passedSince = await findPassed({ events, log }, projectId, uuid);
  if (passedSince) return { receipt: passedSince, refused };
  if (isTaken(events, projectId, uuid)) return { receipt: { outcome: "deleted" }, refused };
  const [last] = refused;
  if (!last) return undefined;
  const { lastAt: at, code, detail: reason } = last;
  return { receipt: { outcome: "refused", at, code, reason }, refused };
}

/** Of an event that waits for no transformation: in the log, or wherever it went from there. */
async function findPassed(
  { events, log }: Pick<ReceiptDeps, "events" | "log">,
  projectId: number,
  uuid: string,
): Promise<FullReceipt | undefined> {
  const storedUpTo = await events.position();
  const stored = await events.receipt(projectId, uuid);
  if (stored) return stored;
  const position = await log.find({ projectId, uuid }, storedUpTo);
  return position === undefined ? undefined : { outcome: "queued", position };
}

/** The uuids of deleted events stay taken: there is one where no event of any name is new. */
function isTaken(events: Pick<EventStore, "known">, projectId: number, uuid: string): boolean {
  const nobody = { event: "", distinctId: "", timestamp: new Date(0), properties: {} };
  const [known] = events.known(projectId, [{ ...nobody, uuid }]);
  return known !== "new";
}
