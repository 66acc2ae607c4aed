import { Refusal } from "../http/errors.ts";
import type { CohortStore, MembershipChange, NamedPersons } from "./cohort-store.ts";
import type { MembershipStore } from "./membership-store.ts";

/** What filling a cohort works with. */
export interface FillTools {
  readonly cohortStore: Pick<CohortStore, "addMembers">;
  readonly memberships: Pick<MembershipStore, "fill" | "settle">;
  readonly clock: () => Date;
}

/** What was begun before a crash is over after this time. */
const LEASE_MS = 10 * 60_000;
/** Renewed this often: whoever fills the same cohort at the same time may have settled it. */
const RENEW_MS = 1_000;
const DAY_MS = 24 * 60 * 60_000;

const BROKEN_OFF =
  "Adding members was broken off: some of them are missing. Do it again; who is a member already stays one.";

/**
 * Adds persons to a static cohort, batch by batch, some thousand in each: meanwhile the cohort is
 * shown as being calculated, with as many members as it has by then. Where that is broken off, by a
 * fault or by the end of the process, the cohort says so, and doing the same again completes it.
 * @param told is called with what became of each batch
 */
export async function fillCohort<Batch extends NamedPersons>(
  { projectId, id }: { readonly projectId: number; readonly id: number },
  batches: Iterable<Batch> | AsyncIterable<Batch>,
  { cohortStore, memberships, clock }: FillTools,
  told: (change: MembershipChange, batch: Batch) => void = () => {},
): Promise<void> {
  let renewedMs = Number.NEGATIVE_INFINITY;
  const after = (ms: number) => new Date(clock().getTime() + ms);
  const renewLease = async () => {
    const nowMs = performance.now();
    if (nowMs - renewedMs < RENEW_MS) return;
    renewedMs = nowMs;
    await memberships.fill(projectId, id, after(LEASE_MS), BROKEN_OFF);
  };
  await renewLease();
  try {
    for await (const batch of batches) {
      await renewLease();
      const added = await cohortStore.addMembers(projectId, id, batch, clock());
      if (!added) throw new Refusal("not_found", "Not found.");
      told(added, batch);
    }
  } catch (error) {
    // Counted now, and told of as broken off; the lease tells the same where that fails as well.
    await memberships.fill(projectId, id, clock(), BROKEN_OFF).catch(() => {});
    throw error;
  }
  await memberships.settle(projectId, id, after(DAY_MS));
}
