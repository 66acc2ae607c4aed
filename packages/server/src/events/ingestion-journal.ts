import type { CaptureObserver } from "./capture.ts";
import { type IngestionWarnings, sampleOf } from "./ingestion-warnings.ts";
import type { PreparationObserver } from "./prepare-run.ts";
import type { Refusals } from "./refusals.ts";
import { sdkOfProperties } from "./sdk.ts";

/** Notes what becomes of events at the door, for receipts and the warnings of their project. */
export function journalCaptures({
  warnings,
  refusals,
}: {
  warnings: Pick<IngestionWarnings, "note">;
  refusals: Pick<Refusals, "note">;
}): CaptureObserver {
  return {
    captured() {},
    rejected({ uuid, code, detail }, { projectId, sdk }) {
      const sample = { detail, ...(uuid !== undefined && { uuid }) };
      warnings.note(projectId, { type: `refused_${code}`, sdk, sample });
      if (uuid !== undefined) refusals.note({ projectId, uuid, code, detail });
    },
    repeated({ projectId, uuid }, code) {
      refusals.note({ projectId, uuid, code, detail: REPEATED[code] });
    },
    warned(type, event, { projectId, sdk }) {
      warnings.note(projectId, { type, sdk, sample: sampleOf(event) });
    },
    undecodable(detail, { projectId, sdk }) {
      if (projectId === undefined) return;
      warnings.note(projectId, { type: "undecodable_body", sdk, sample: { detail } });
    },
  };
}

const REPEATED = {
  duplicate: "The event was taken before.",
  conflict: "The uuid belongs to another event, which stays.",
} as const;

/** Notes what is wrong with persons and groups of events. */
export function journalPreparations(
  warnings: Pick<IngestionWarnings, "note">,
): PreparationObserver {
  return {
    dropped() {},
    setAside() {},
    warned(type, event) {
      const sdk = sdkOfProperties(event.properties) ?? { name: "", version: "" };
      warnings.note(event.projectId, { type, sdk, sample: sampleOf(event) });
    },
  };
}

/** Tells several observers of captures. */
export function tellCaptures(...observers: readonly CaptureObserver[]): CaptureObserver {
  return {
    captured(...told) {
      for (const observer of observers) observer.captured(...told);
    },
    rejected(...told) {
      for (const observer of observers) observer.rejected(...told);
    },
    repeated(...told) {
      for (const observer of observers) observer.repeated(...told);
    },
    warned(...told) {
      for (const observer of observers) observer.warned(...told);
    },
    undecodable(...told) {
      for (const observer of observers) observer.undecodable(...told);
    },
  };
}

/** Tells several observers of preparations. */
export function tellPreparations(
  ...observers: readonly PreparationObserver[]
): PreparationObserver {
  return {
    dropped(...told) {
      for (const observer of observers) observer.dropped(...told);
    },
    setAside(...told) {
      for (const observer of observers) observer.setAside(...told);
    },
    warned(...told) {
      for (const observer of observers) observer.warned(...told);
    },
  };
}

/** What the journal keeps is written this often. */
const FLUSH_EVERY_MS = 5000;
const PRUNE_EVERY_MS = 3_600_000;

/**
 * Writes and prunes the journal from now on; answers what stops it, after a last writing.
 */
export function keepJournal(
  parts: { readonly warnings: Flushed; readonly refusals: Flushed },
  options: { readonly prune: () => Promise<void>; readonly flushEveryMs?: number },
): () => Promise<void> {
  const flush = async () => {
    await parts.warnings.flush();
    await parts.refusals.flush();
  };
  const flushing = setInterval(() => void flush(), options.flushEveryMs ?? FLUSH_EVERY_MS);
  const pruning = setInterval(() => void options.prune(), PRUNE_EVERY_MS);
  flushing.unref();
  pruning.unref();
  void options.prune();
  return async () => {
    clearInterval(flushing);
    clearInterval(pruning);
    await flush();
  };
}

interface Flushed {
  flush(): Promise<void>;
}
