import type { CapturedEvent } from "@hedgerow/core/events/event";
import type { Sdk } from "./ingestion-warning-store.ts";
import {
  type IngestionWarningStore,
  MAX_SAMPLES,
  MAX_WARNINGS_PER_DAY,
  OTHER_SDK,
  type WarningSample,
  type WarningTally,
} from "./ingestion-warning-store.ts";

/** Something that whoever runs a project's SDKs should know, counted as it happens. */
export interface IngestionWarnings {
  /** Costs a look into a map; never fails. */
  note(
    projectId: number,
    warning: { type: string; sdk: Sdk; sample: Omit<WarningSample, "at"> },
  ): void;
  /** Writes what was noted. What cannot be written is forgotten, and reported. */
  flush(): Promise<void>;
}

const MAX_TEXT = 200;
const MS_PER_DAY = 86_400_000;

type Tally = { -readonly [Field in keyof WarningTally]: WarningTally[Field] };

/** Gathers warnings in memory: a flood of one kind costs one row each time they are written. */
export function createIngestionWarnings({
  store,
  clock,
  reportFault,
}: {
  store: Pick<IngestionWarningStore, "add">;
  clock: () => Date;
  reportFault: (error: unknown, context: string) => void;
}): IngestionWarnings {
  let noted = new Map<number, Map<string, Tally>>();

  return {
    note(projectId, { type, sdk, sample }) {
      const at = clock();
      let tallies = noted.get(projectId);
      if (!tallies) {
        tallies = new Map();
        noted.set(projectId, tallies);
      }
      const day = Math.floor(at.getTime() / MS_PER_DAY);
      const keyOf = ({ name, version }: Sdk) => JSON.stringify([day, type, name, version]);
      const isKnown = tallies.has(keyOf(sdk));
      const counted = isKnown || tallies.size < MAX_WARNINGS_PER_DAY ? sdk : OTHER_SDK;
      const key = keyOf(counted);
      let tally = tallies.get(key);
      if (!tally) {
        tally = { type, sdk: counted, count: 0, firstAt: at, lastAt: at, samples: [] };
        tallies.set(key, tally);
      }
      tally.count++;
      tally.lastAt = at;
      if (tally.samples.length < MAX_SAMPLES) {
        tally.samples = [...tally.samples, { ...cutTexts(sample), at }];
      }
    },

    async flush() {
      const due = noted;
      noted = new Map();
      for (const [projectId, tallies] of due) {
        try {
          await store.add(projectId, [...tallies.values()]);
        } catch (error) {
          reportFault(error, `ingestion warnings of project ${projectId} could not be written`);
        }
      }
    },
  };
}

/** What identifies an event in a sample. */
export function sampleOf({ uuid, event, distinctId }: CapturedEvent): Omit<WarningSample, "at"> {
  return { uuid, event, distinctId };
}

function cutTexts(sample: Omit<WarningSample, "at">): Omit<WarningSample, "at"> {
  return Object.fromEntries(
    Object.entries(sample).flatMap(([name, text]) =>
      text === undefined ? [] : [[name, text.slice(0, MAX_TEXT)]],
    ),
  );
}
