import { type Static, Type } from "typebox";
import { Refusal } from "../http/errors.ts";
import { queryText } from "../http/query-text.ts";
import { wireInstant } from "../http/wire-instant.ts";
import { Nullable } from "../http/wire-schemas.ts";
import type { DecisionCount } from "./decision-counts.ts";
import type { CallCount, FlagDrift, Journey } from "./flag-calls.ts";

const MAX_DAYS = 366;
const DAY_MS = 86_400_000;

export const UsageParameters = Type.Object({
  days: Type.Optional(
    Type.String({ description: "How many days, today (UTC) included; 30 unless given." }),
  ),
});

export const DriftParameters = Type.Object({
  ...UsageParameters.properties,
  threshold: Type.Optional(
    Type.String({
      description:
        "Percentage of a flag's persons above which drifting ones are an alert; 5 unless given.",
    }),
  ),
});

/** Reads the threshold of alerts, a percentage; throws a refusal that names the parameter. */
export function driftThresholdOf(query: unknown): number {
  const text = queryText(query, "threshold") || "5";
  const threshold = /^\d{1,3}(\.\d{1,6})?$/.test(text) ? Number(text) : Number.NaN;
  if (threshold <= 100) return threshold;
  throw new Refusal("invalid_input", "Expected a percentage from 0 to 100.", {
    attr: "threshold",
  });
}

/** From the beginning of the first day to now, calls of clocks that are ahead included. */
export interface UsagePeriod {
  readonly from: Date;
  readonly to: Date;
}

/** Reads the days that are asked about; throws a refusal that names the parameter. */
export function usagePeriodOf(query: unknown, now: Date): UsagePeriod {
  const text = queryText(query, "days") || "30";
  const days = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (days < 1 || days > MAX_DAYS) {
    throw new Refusal("invalid_input", `Expected a number of days from 1 to ${MAX_DAYS}.`, {
      attr: "days",
    });
  }
  const tomorrowMs = (Math.floor(now.getTime() / DAY_MS) + 1) * DAY_MS;
  return { from: new Date(tomorrowMs - days * DAY_MS), to: new Date(tomorrowMs) };
}

const period = {
  from: Type.String({ format: "date-time" }),
  to: Type.String({ format: "date-time" }),
};
const value = Nullable(
  Type.String({ description: "The answer as text; `null` where none is told." }),
);

/** Calls of a flag by day and answer. */
export const FlagUsage = Type.Object(
  {
    key: Type.String(),
    ...period,
    calls: Type.Integer(),
    last_called_at: Nullable(Type.String({ format: "date-time" })),
    values: Type.Array(Type.Object({ value, calls: Type.Integer() })),
    days: Type.Array(
      Type.Object({
        day: Type.String({ description: "UTC." }),
        value,
        calls: Type.Integer(),
        persons: Type.Integer({ description: "Persons who called that day." }),
      }),
    ),
    requests: Type.Array(
      Type.Object({ day: Type.String(), value: Type.String(), times: Type.Number() }),
      {
        description:
          "Flag requests by day and answer, estimated from a share of them; empty unless the service counts them.",
      },
    ),
  },
  { title: "FlagUsage" },
);

/** The wire form of a flag's calls. */
export function wireUsage(
  flag: { readonly key: string; readonly lastCalledAt: Date | null },
  { counts, decisions }: { counts: readonly CallCount[]; decisions: readonly DecisionCount[] },
  { from, to }: UsagePeriod,
): Static<typeof FlagUsage> {
  const values = new Map<string | null, number>();
  for (const { value, calls } of counts) values.set(value, (values.get(value) ?? 0) + calls);
  return {
    key: flag.key,
    from: wireInstant(from),
    to: wireInstant(to),
    calls: counts.reduce((sum, { calls }) => sum + calls, 0),
    last_called_at: flag.lastCalledAt && wireInstant(flag.lastCalledAt),
    values: [...values]
      .map(([value, calls]) => ({ value, calls }))
      .toSorted((a, b) => b.calls - a.calls),
    days: counts.map((count) => ({ ...count })),
    requests: decisions.map(({ day, value, times }) => ({ day, value, times })),
  };
}

const driftCounts = {
  key: Type.String(),
  persons: Type.Integer({ description: "Persons who called the flag." }),
  drifting: Type.Integer({ description: "Those among them who got different answers." }),
  drifting_in_session: Type.Integer({
    description: "Those among the drifting who got different answers within one session.",
  }),
  drifting_percentage: Type.Number(),
  alert: Type.Boolean({ description: "Whether the percentage is above the threshold." }),
};
const threshold = Type.Number({ description: "Percentage above which there is an alert." });

/** How many persons got different answers, flag by flag. */
export const DriftOfFlags = Type.Object({
  ...period,
  threshold,
  results: Type.Array(Type.Object(driftCounts)),
});

/** The wire form of the drift of flags. */
export function wireDriftOfFlags(
  found: readonly FlagDrift[],
  { from, to }: UsagePeriod,
  threshold: number,
): Static<typeof DriftOfFlags> {
  return {
    from: wireInstant(from),
    to: wireInstant(to),
    threshold,
    results: found.map((drift) => wireCounts(drift, threshold)),
  };
}

function wireCounts(
  { flagKey, persons, drifting, driftingInSession }: FlagDrift,
  threshold: number,
) {
  const percentage = persons === 0 ? 0 : (drifting / persons) * 100;
  return {
    key: flagKey,
    persons,
    drifting,
    drifting_in_session: driftingInSession,
    drifting_percentage: percentage,
    alert: percentage > threshold,
  };
}

/** How many persons got different answers of one flag, and what some of them got, in order. */
export const FlagDriftAnswer = Type.Object(
  {
    ...driftCounts,
    ...period,
    threshold,
    journeys: Type.Array(
      Type.Object({
        person_id: Type.String({ description: "UUID." }),
        steps: Type.Array(
          Type.Object({
            value,
            distinct_id: Type.String(),
            session_id: Nullable(Type.String()),
            from: Type.String({ format: "date-time" }),
            to: Type.String({ format: "date-time" }),
            calls: Type.Integer(),
          }),
        ),
      }),
      { description: "None for keys that may not read persons (`person:read`)." },
    ),
  },
  { title: "FlagDrift" },
);

/** The wire form of one flag's drift; no calls are no drift. */
export function wireDrift(
  key: string,
  [counts]: readonly FlagDrift[],
  {
    journeys,
    period,
    threshold,
  }: { journeys: readonly Journey[]; period: UsagePeriod; threshold: number },
): Static<typeof FlagDriftAnswer> {
  const none = { flagKey: key, persons: 0, drifting: 0, driftingInSession: 0 };
  return {
    ...wireCounts(counts ?? none, threshold),
    from: wireInstant(period.from),
    to: wireInstant(period.to),
    threshold,
    journeys: journeys.map(({ personId, steps }) => ({
      person_id: personId,
      steps: steps.map((step) => ({
        value: step.value,
        distinct_id: step.distinctId,
        session_id: step.sessionId,
        from: wireInstant(step.first),
        to: wireInstant(step.last),
        calls: step.calls,
      })),
    })),
  };
}
