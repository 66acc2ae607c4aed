import type { DuckDBConnection, DuckDBValue } from "@duckdb/node-api";
import {
  type CallCount,
  type CallQuery,
  FLAG_CALLED,
  type FlagCalls,
  type FlagDrift,
  type Journey,
  type JourneyStep,
} from "../../flags/flag-calls.ts";
import { timestampOf } from "./duckdb-values.ts";
import { MERGES, PERSON } from "./person-merges.ts";

/** Runs queries on a connection of their own. */
type Read = <Result>(use: (connection: DuckDBConnection) => Promise<Result>) => Promise<Result>;

/** Calls that a journey is made of, at most. */
const MAX_JOURNEY_CALLS = 200;

const CALLED = `'${FLAG_CALLED}'`;
const CALLS = `events e ${MERGES}`;

/** {@link FlagCalls} on the columns that events have for them. */
export function createFlagCalls(read: Read): FlagCalls {
  return {
    callsByDay: (query) =>
      read(async (connection) => {
        const { conditions, values } = conditionsOf(query);
        const result = await connection.runAndReadAll(
          `select strftime(e.timestamp, '%Y-%m-%d') as day, e.feature_flag_response as value,
              count(*)::double, count(distinct ${PERSON})::double
            from ${CALLS} where ${conditions}
            group by day, value order by day, value nulls first`,
          values,
        );
        return result
          .getRows()
          .map(([day, value, calls, persons]) => ({ day, value, calls, persons }) as CallCount);
      }),

    drift: ({ limit, ...query }) =>
      read(async (connection) => {
        const { conditions, values } = conditionsOf(query);
        const result = await connection.runAndReadAll(
          `with got as (
              select distinct e.feature_flag as flag, ${PERSON} as person, e.session_id as session,
                  coalesce(e.feature_flag_response, '') as answer
                from ${CALLS} where ${conditions}),
            persons as (
              select flag, person, count(distinct answer) as answers from got group by flag, person),
            within_session as (
              select distinct flag, person from (
                select flag, person from got where session is not null
                  group by flag, person, session having count(distinct answer) > 1))
            select p.flag, count(*)::double, count(*) filter (p.answers > 1)::double as drifting,
                count(w.person)::double
              from persons p left join within_session w on w.flag = p.flag and w.person = p.person
              group by p.flag order by drifting desc, p.flag limit ${limit}`,
          values,
        );
        return result
          .getRows()
          .map(
            ([flagKey, persons, drifting, driftingInSession]) =>
              ({ flagKey, persons, drifting, driftingInSession }) as FlagDrift,
          );
      }),

    journeys: ({ limit, ...query }) =>
      read(async (connection) => {
        const { conditions, values } = conditionsOf(query);
        const result = await connection.runAndReadAll(
          `with calls as (
              select ${PERSON} as person, e.feature_flag_response as value, e.distinct_id,
                  e.session_id, epoch_ms(e.timestamp)::double as called_ms, e.position
                from ${CALLS} where ${conditions}),
            drifting as (
              select person, max(called_ms) as latest from calls group by person
                having count(distinct coalesce(value, '')) > 1
                order by latest desc, person limit ${limit}),
            numbered as (
              select c.*, d.latest,
                  row_number() over (partition by c.person order by c.called_ms, c.position) as place
                from calls c join drifting d on d.person = c.person)
            select person::varchar, value, distinct_id, session_id, called_ms from numbered
              where place <= ${MAX_JOURNEY_CALLS}
              order by latest desc, person, called_ms, position`,
          values,
        );
        return toJourneys(result.getRows() as CallRow[]);
      }),

    lastCalls: (storedSince) =>
      read(async (connection) => {
        const result = await connection.runAndReadAll(
          `select project_id, feature_flag, epoch_ms(max(timestamp))::double from events
            where event = ${CALLED} and feature_flag is not null and stored_at >= $1
            group by project_id, feature_flag`,
          [timestampOf(storedSince)],
        );
        return (result.getRows() as [number, string, number][]).map(([projectId, flagKey, at]) => ({
          projectId,
          flagKey,
          at: new Date(at),
        }));
      }),
  };
}

function conditionsOf({ projectId, from, to, flagKey }: CallQuery & { flagKey?: string }) {
  const values: DuckDBValue[] = [projectId, timestampOf(from), timestampOf(to)];
  const conditions = [
    "e.project_id = $1",
    `e.event = ${CALLED}`,
    "e.timestamp >= $2",
    "e.timestamp < $3",
    flagKey === undefined
      ? "e.feature_flag is not null"
      : `e.feature_flag = $${values.push(flagKey)}`,
  ];
  return { conditions: conditions.join(" and "), values };
}

type CallRow = [
  person: string,
  value: string | null,
  distinctId: string,
  sessionId: string | null,
  at: number,
];

/** Calls by person and time, those alike in a row made one step. */
function toJourneys(rows: readonly CallRow[]): readonly Journey[] {
  const journeys: { personId: string; steps: JourneyStep[] }[] = [];
  for (const [personId, value, distinctId, sessionId, at] of rows) {
    let journey = journeys.at(-1);
    if (journey?.personId !== personId) {
      journey = { personId, steps: [] };
      journeys.push(journey);
    }
    const last = new Date(at);
    const before = journey.steps.at(-1);
    const continues =
      before?.value === value && before.distinctId === distinctId && before.sessionId === sessionId;
    if (continues)
      journey.steps[journey.steps.length - 1] = { ...before, last, calls: before.calls + 1 };
    else journey.steps.push({ value, distinctId, sessionId, first: last, last, calls: 1 });
  }
  return journeys;
}
