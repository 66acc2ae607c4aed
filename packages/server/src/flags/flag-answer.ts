import type { FlagEvaluation, FlagIdentity } from "@hedgerow/core/flags/flag";

/** The shapes a flag answer can have: those of `/decide` by `v`, and of `/flags` by `v`. */
export type AnswerShape = "decide-1" | "decide-2" | "decide-3" | "decide-4" | "flags-1" | "flags-2";

/** What a flag request is answered with, before it takes a shape. */
export interface FlagAnswer {
  readonly evaluations: readonly FlagEvaluation[];
  readonly errorsWhileComputing: boolean;
  readonly requestId: string;
  readonly evaluatedAt: Date;
}

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

/**
 * Writes the answer as JSON text. The text of a flag is assembled from parts prepared once per
 * compiled flag, since an answer repeats the same few values over and over.
 * @param withSettings whether the client settings are part of it (always, for `/decide`)
 */
export function writeFlagAnswer(
  answer: FlagAnswer,
  shape: AnswerShape,
  withSettings: boolean,
): string {
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
      return `{"featureFlags":{${writeValues(answer.evaluations, true)}},${tail}`;
    case "decide-3":
    case "flags-1":
      return `{"featureFlags":{${writeValues(answer.evaluations, false)}},"featureFlagPayloads":{${writePayloads(
        answer.evaluations,
      )}},${tail}`;
    case "decide-4":
    case "flags-2":
      return `{"flags":{${writeDetails(answer.evaluations)}},${tail}`;
  }
}

function writeKeysOfFlagsOn(evaluations: readonly FlagEvaluation[]): string {
  let text = "";
  for (const { value, failed, flag } of evaluations) {
    if (failed || value === false) continue;
    text += text === "" ? partsOf(flag).key : `,${partsOf(flag).key}`;
  }
  return text;
}

/** Failed flags are left out, so that a client that merges keeps the value it had. */
function writeValues(evaluations: readonly FlagEvaluation[], onlyOn: boolean): string {
  let text = "";
  for (const evaluation of evaluations) {
    if (evaluation.failed || (onlyOn && evaluation.value === false)) continue;
    const { entry } = valuePartsOf(evaluation);
    text += text === "" ? entry : `,${entry}`;
  }
  return text;
}

function writePayloads(evaluations: readonly FlagEvaluation[]): string {
  let text = "";
  for (const evaluation of evaluations) {
    if (evaluation.failed || evaluation.value === false || evaluation.payload === null) continue;
    const { payloadEntry } = valuePartsOf(evaluation);
    text += text === "" ? payloadEntry : `,${payloadEntry}`;
  }
  return text;
}

function writeDetails(evaluations: readonly FlagEvaluation[]): string {
  let text = "";
  for (const evaluation of evaluations) {
    const { reason, failed } = evaluation;
    const { detailStart, detailEnd } = valuePartsOf(evaluation);
    text += `${text === "" ? "" : ","}${detailStart}{"code":"${reason.code}","condition_index":${
      reason.conditionIndex
    },"description":"${reason.description}"}${detailEnd}${failed ? ',"failed":true}' : "}"}`;
  }
  return text;
}

interface FlagParts {
  /** The key as JSON text. */
  readonly key: string;
  /** By value; one value always carries the same payload, but an enrolment that is off may. */
  readonly byValue: Map<boolean | string, ValueParts>;
  readonly offWithPayload: { parts: ValueParts | null };
}

interface ValueParts {
  readonly entry: string;
  readonly payloadEntry: string;
  readonly detailStart: string;
  readonly detailEnd: string;
}

const partsByFlag = new WeakMap<FlagIdentity, FlagParts>();

function partsOf(flag: FlagIdentity): FlagParts {
  let parts = partsByFlag.get(flag);
  if (!parts) {
    parts = { key: JSON.stringify(flag.key), byValue: new Map(), offWithPayload: { parts: null } };
    partsByFlag.set(flag, parts);
  }
  return parts;
}

function valuePartsOf(evaluation: FlagEvaluation): ValueParts {
  const flagParts = partsOf(evaluation.flag);
  if (evaluation.value === false && evaluation.payload !== null) {
    flagParts.offWithPayload.parts ??= buildValueParts(evaluation, flagParts.key);
    return flagParts.offWithPayload.parts;
  }
  let parts = flagParts.byValue.get(evaluation.value);
  if (!parts) {
    parts = buildValueParts(evaluation, flagParts.key);
    flagParts.byValue.set(evaluation.value, parts);
  }
  return parts;
}

function buildValueParts({ flag, value, payload }: FlagEvaluation, key: string): ValueParts {
  const payloadText = JSON.stringify(payload);
  const metadata = JSON.stringify({
    id: flag.id,
    version: flag.version,
    description: flag.name,
    payload,
    has_experiment: flag.hasExperiment,
  });
  return {
    entry: `${key}:${JSON.stringify(value)}`,
    payloadEntry: `${key}:${payloadText}`,
    detailStart: `${key}:{"key":${key},"enabled":${value !== false},"variant":${
      typeof value === "string" ? JSON.stringify(value) : "null"
    },"reason":`,
    detailEnd: `,"metadata":${metadata}`,
  };
}
