import { encodeJson } from "@hedgerow/core/exact-json";
import type { FlagEvaluation } from "@hedgerow/core/flags/flag";
import type { AnswerBuffer, AnswerBuffers } from "./answer-buffers.ts";
import type { FlagAnswer } from "./flag-answer.ts";

/** The shapes a flag answer can have: those of `/decide` by `v`, and of `/flags` by `v`. */
export type AnswerShape = "decide-1" | "decide-2" | "decide-3" | "decide-4" | "flags-1" | "flags-2";

/** The shape of a `/decide` answer; absent is 1, and a version nobody knows gets the highest (decision 2). */
export function decideShape(v: string | undefined): AnswerShape {
  switch (v) {
    case undefined:
    case "1":
      return "decide-1";
    case "2":
      return "decide-2";
    case "3":
      return "decide-3";
    default:
      return "decide-4";
  }
}

/** The shape of a `/flags` answer (posthog-api 8.6). */
export function flagsShape(v: string | undefined): AnswerShape {
  return v === "1" ? "flags-1" : "flags-2";
}

/** Settings that tell browser SDKs how to behave (posthog-api 8.2); the same in every answer. */
export const CLIENT_SETTINGS = {
  supportedCompression: ["gzip", "gzip-js", "lz64", "base64"],
  sessionRecording: false,
  capturePerformance: false,
  autocapture_opt_out: false,
  autocaptureExceptions: false,
  captureDeadClicks: false,
  analytics: { endpoint: "/i/v0/e/" },
  elementsChainAsString: true,
  surveys: false,
  heatmaps: false,
  flagsPersistenceDefault: false,
  defaultIdentifiedOnly: true,
  siteApps: [],
} as const;

const DECIDE_SETTINGS = JSON.stringify({
  config: { enable_collect_everything: true },
  toolbarParams: {},
  isAuthenticated: false,
  ...CLIENT_SETTINGS,
}).slice(1, -1);

/** How a flag answer is to be written. */
export interface AnswerFormat {
  readonly shape: AnswerShape;
  /** Whether the client settings are part of it (always, for `/decide`). */
  readonly withSettings: boolean;
}

/** From so many flags on, details are put together as bytes: fewer are quicker to join as text. */
const MANY_DETAILS = 200;

/**
 * Writes the answer as JSON, put together from the prepared texts of its evaluations; one that is
 * large as UTF-8 in lent memory, since text would be copied and encoded once more on its way out.
 */
export function writeFlagAnswer(
  answer: FlagAnswer,
  { shape, withSettings }: AnswerFormat,
  lend: AnswerBuffers,
): string | AnswerBuffer {
  const settings = withSettings ? `,${DECIDE_SETTINGS}` : "";
  const errors = answer.errorsWhileComputing;
  // The interface document and PostHog's clients spell this key differently: both get theirs.
  const tail = `"errorsWhileComputingFlags":${errors},"errorComputingFlags":${errors},"requestId":"${
    answer.requestId
  }","evaluatedAt":${answer.evaluatedAt.getTime()}${settings}}`;
  switch (shape) {
    case "decide-1":
      return `{"featureFlags":[${writeKeysOfFlagsOn(answer.evaluations)}],${tail}`;
    case "decide-2":
      return `{"featureFlags":{${writeValuesOfFlagsOn(answer.evaluations)}},${tail}`;
    case "decide-3":
    case "flags-1":
      return `{${writeValuesAndPayloads(answer.evaluations)},${tail}`;
    case "decide-4":
    case "flags-2": {
      const end = `},${tail}`;
      return answer.evaluations.length < MANY_DETAILS
        ? `{"flags":{${writeDetails(answer.evaluations)}${end}`
        : encodeDetails(answer.evaluations, { start: '{"flags":{', end, lend });
    }
  }
}

// Joined from a list: text that grows piece by piece would be copied together at the end anyway,
// and more slowly.
function writeKeysOfFlagsOn(evaluations: readonly FlagEvaluation[]): string {
  const texts: string[] = [];
  for (const evaluation of evaluations) {
    if (evaluation.failed || evaluation.value === false) continue;
    texts.push(textOf(evaluation).key);
  }
  return texts.join(",");
}

/** Values and payloads. Failed flags are left out, so that a client that merges keeps the value it had. */
function writeValuesAndPayloads(evaluations: readonly FlagEvaluation[]): string {
  const values: string[] = [];
  const payloads: string[] = [];
  for (let at = 0; at < evaluations.length; at += 1) {
    const { value, payload } = textOf(evaluations[at] as FlagEvaluation);
    if (value !== null) values.push(value);
    if (payload !== null) payloads.push(payload);
  }
  return `"featureFlags":{${values.join(",")}},"featureFlagPayloads":{${payloads.join(",")}}`;
}

/** The same without payloads and without flags that are off. */
function writeValuesOfFlagsOn(evaluations: readonly FlagEvaluation[]): string {
  const values: string[] = [];
  for (const evaluation of evaluations) {
    const { value } = textOf(evaluation);
    if (value !== null && evaluation.value !== false) values.push(value);
  }
  return values.join(",");
}

function writeDetails(evaluations: readonly FlagEvaluation[]): string {
  return evaluations.map((evaluation) => textOf(evaluation).detail).join(",");
}

/** The same as UTF-8, between two texts. There is at least one evaluation. */
function encodeDetails(
  evaluations: readonly FlagEvaluation[],
  { lend, ...around }: { readonly start: string; readonly end: string; lend: AnswerBuffers },
): AnswerBuffer {
  const details = new Array<Uint8Array>(evaluations.length);
  let size = 0;
  for (let at = 0; at < evaluations.length; at += 1) {
    const detail = textOf(evaluations[at] as FlagEvaluation).nextDetail;
    details[at] = detail;
    size += detail.length;
  }
  const start = Buffer.from(around.start);
  const end = Buffer.from(around.end);
  // Each detail has a comma before it; the start takes the place of the first.
  const buffer = lend(start.length - 1 + size + end.length);
  const { bytes } = buffer;
  let at = start.length - 1;
  for (const detail of details) {
    bytes.set(detail, at);
    at += detail.length;
  }
  bytes.set(start, 0);
  bytes.set(end, at);
  return buffer;
}

/** One evaluation as entries of the answer's maps; details, which are long, as soon as they are asked for. */
class EvaluationText {
  readonly key: string;
  /** `null` for a flag that failed. */
  readonly value: string | null;
  /** `null` for a flag that is off or has none. */
  readonly payload: string | null;
  readonly #evaluation: FlagEvaluation;
  #detail: string | null = null;
  #nextDetail: Uint8Array | null = null;

  constructor(evaluation: FlagEvaluation) {
    const { flag, value, payload, failed } = evaluation;
    const key = JSON.stringify(flag.key);
    this.key = key;
    this.value = failed ? null : `${key}:${JSON.stringify(value)}`;
    this.payload =
      failed || value === false || payload === null ? null : `${key}:${encodeJson(payload)}`;
    this.#evaluation = evaluation;
  }

  get detail(): string {
    this.#detail ??= `${this.key}:${encodeJson(detailOf(this.#evaluation))}`;
    return this.#detail;
  }

  /** The detail as UTF-8 behind a comma. */
  get nextDetail(): Uint8Array {
    this.#nextDetail ??= Buffer.from(`,${this.key}:${encodeJson(detailOf(this.#evaluation))}`);
    return this.#nextDetail;
  }
}

/** What the versions with details say of a flag (flag-evaluation 15.1). */
function detailOf({ flag, value, payload, reason, failed }: FlagEvaluation): object {
  return {
    key: flag.key,
    enabled: value !== false,
    variant: typeof value === "string" ? value : null,
    reason: {
      code: reason.code,
      condition_index: reason.conditionIndex,
      description: reason.description,
    },
    metadata: {
      id: flag.id,
      version: flag.version,
      description: flag.name,
      payload,
      has_experiment: flag.hasExperiment,
    },
    ...(failed && { failed }),
  };
}

/** Equal answers of a compiled flag are one shared object, so each is written out once. */
function textOf(evaluation: FlagEvaluation): EvaluationText {
  const { text } = evaluation.derived;
  if (text instanceof EvaluationText) return text;
  const written = new EvaluationText(evaluation);
  evaluation.derived.text = written;
  return written;
}
