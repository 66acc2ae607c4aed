import { cleanJson, cleanText } from "@hedgerow/core/events/clean-json";
import { cutName } from "@hedgerow/core/events/cut-name";
import type { CapturedEvent } from "@hedgerow/core/events/event";
import { eventTimes, readMoment } from "@hedgerow/core/events/event-time";
import type { JsonObject } from "@hedgerow/core/json";
import {
  HOPS_PROPERTY,
  isOutOfCalendar,
  MAX_HOPS,
} from "@hedgerow/core/transformations/plugin-event";
import { v5 } from "uuid";
import { MAX_CAPTURES, type SandboxCapture } from "./sandbox.ts";
import type { Stage } from "./stage.ts";

/** What a call of `posthog.capture` hangs on. */
export interface CaptureSource {
  /** How deep the event under way was captured itself; 0 where there is none. */
  readonly hops: number;
  /** UUID that those of captured events are derived from: of the event under way, if there is one. */
  readonly uuid: string;
  /** Calls before this one, for the same source. */
  readonly index: number;
  /** Whether too many are refused here: those of events under way were, when they were asked for. */
  readonly isBounded: boolean;
  readonly at: Date;
}

/**
 * The event that a transformation captures, or why it may not: each is one deeper than what it was
 * captured from, and nothing is captured from the deepest. The same call for the same source
 * captures the same event.
 */
export function captureFrom(
  stage: Pick<Stage, "projectId" | "configId" | "name">,
  { event, distinctId, properties, timestamp }: SandboxCapture,
  source: CaptureSource,
): CapturedEvent | { readonly refusal: "too-deep" | "too-many" | "no-name" } {
  if (source.hops >= MAX_HOPS) return { refusal: "too-deep" };
  if (source.isBounded && source.index >= MAX_CAPTURES) return { refusal: "too-many" };
  if (event.trim() === "") return { refusal: "no-name" };
  const moment = timestamp === null ? null : readTime(timestamp);
  return {
    uuid: v5(`${stage.configId} ${source.index}`, source.uuid),
    projectId: stage.projectId,
    event: cutName(cleanText(event)),
    distinctId: cutName(cleanText(distinctId?.trim() ? distinctId : stage.name)),
    properties: {
      ...(cleanJson(properties) as JsonObject),
      $lib: "hedgerow-transformation",
      [HOPS_PROPERTY]: source.hops + 1,
    },
    ...timesOf(moment, source.at),
    receivedAt: source.at,
  };
}

/** `null` for what is no time that can be kept. */
function readTime(text: string): Date | null {
  const moment = readMoment(text);
  return moment && !isOutOfCalendar(moment, text) ? moment : null;
}

/** As with what comes from outside, nothing is kept further ahead of its arrival (decision 18). */
function timesOf(clientTimestamp: Date | null, receivedAt: Date) {
  const given = { clientTimestamp, offsetMs: null, sentAt: null, receivedAt };
  const { timestamp } = eventTimes(given);
  return { timestamp, clientTimestamp };
}
