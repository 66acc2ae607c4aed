import type { AddedProperties } from "@hedgerow/core/events/event";
import { passedProperties } from "@hedgerow/core/transformations/plugin-event";
import type { Stage } from "./stage.ts";

/** What an event did in a stage: it came out as it was, or changed, or the transformation failed. */
export type Passing = "same" | "changed" | "failed";

/** What is said of a stage that an event has passed. */
type PassedStage = Pick<Stage, "configId" | "label" | "versionLabel">;

/**
 * The stages that an event has passed, and how. Events that passed the same in the same way share one:
 * what is said of that is made once for all of them.
 */
export interface Trail {
  /** Versions that changed the event, in order. */
  readonly changedBy: readonly string[];
  /** What the event says of it; `undefined` before the first stage. */
  readonly told: AddedProperties | undefined;
  hasPassed(configId: number): boolean;
  /** The trail after one more stage. */
  after(stage: PassedStage, passing: Passing): Trail;
}

/** Where trails begin. */
export interface Trails {
  /** Before the first stage. It keeps the trails that grow from it, and is another one once they are many. */
  begin(): Trail;
}

/** @param maxGrown so many grow from one beginning: each stage may triple them */
export function createTrails(maxGrown: number): Trails {
  let grown = 0;
  const newBeginning = () => {
    grown = 0;
    return trailOf({ succeeded: [], failed: [], changedBy: [], passed: [] }, () => {
      grown++;
    });
  };
  let beginning = newBeginning();
  return {
    begin() {
      if (grown > maxGrown) beginning = newBeginning();
      return beginning;
    },
  };
}

interface Passed {
  readonly succeeded: readonly string[];
  readonly failed: readonly string[];
  readonly changedBy: readonly string[];
  readonly passed: readonly number[];
}

function trailOf({ succeeded, failed, changedBy, passed }: Passed, onGrown: () => void): Trail {
  const following = new Map<PassedStage, Map<Passing, Trail>>();
  return {
    changedBy,
    told: passed.length === 0 ? undefined : passedProperties(succeeded, failed),
    hasPassed: (configId) => passed.includes(configId),
    after(stage, passing) {
      let byPassing = following.get(stage);
      if (!byPassing) {
        byPassing = new Map();
        following.set(stage, byPassing);
      }
      let trail = byPassing.get(passing);
      if (!trail) {
        const now = {
          succeeded: passing === "failed" ? succeeded : [...succeeded, stage.label],
          failed: passing === "failed" ? [...failed, stage.label] : failed,
          changedBy: passing === "changed" ? [...changedBy, stage.versionLabel] : changedBy,
          passed: [...passed, stage.configId],
        };
        trail = trailOf(now, onGrown);
        onGrown();
        byPassing.set(passing, trail);
      }
      return trail;
    },
  };
}
