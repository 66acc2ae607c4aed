import type { FastifyRequest } from "fastify";
import { QueryTooLong } from "../events/event-store.ts";
import type { App } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { access, mayRead, projectOf } from "../http/management-api.ts";
import { pathIdOf } from "../http/path-id.ts";
import type { DecisionCounts } from "./decision-counts.ts";
import type { FlagCalls } from "./flag-calls.ts";
import {
  DriftOfFlags,
  DriftParameters,
  driftThresholdOf,
  FlagDriftAnswer,
  FlagUsage,
  UsageParameters,
  usagePeriodOf,
  wireDrift,
  wireDriftOfFlags,
  wireUsage,
} from "./flag-usage.schemas.ts";
import type { Flags } from "./flags.ts";

const FLAGS = "/api/projects/:project_id/feature_flags";
const tags = ["feature_flags"];
const MAX_JOURNEYS = 20;
const MAX_FLAGS = 1000;

/** How flags are used: their calls by day and answer, and persons who got different answers. */
export function flagUsageRoutes(
  app: App,
  {
    flags,
    flagCalls,
    decisionCounts,
    caughtUp,
    clock,
  }: {
    flags: Pick<Flags, "flag">;
    flagCalls: FlagCalls;
    decisionCounts: Pick<DecisionCounts, "ofFlag">;
    /** Resolves once everything captured before is stored, or that takes too long. */
    caughtUp: (projectId: number) => Promise<unknown>;
    clock: () => Date;
  },
): void {
  /** Asks the event store once it has what was captured before. */
  async function ask<Found>(projectId: number, query: () => Promise<Found>): Promise<Found> {
    await caughtUp(projectId);
    try {
      return await query();
    } catch (error) {
      if (!(error instanceof QueryTooLong)) throw error;
      throw new Refusal("invalid_input", "There are too many events: ask for fewer days.", {
        attr: "days",
      });
    }
  }
  const queryOf = (request: FastifyRequest) => {
    const period = usagePeriodOf(request.query, clock());
    return { period, query: { projectId: projectOf(request).id, ...period } };
  };

  app.get(
    `${FLAGS}/:id/usage`,
    {
      ...access("feature_flag:read"),
      schema: {
        tags,
        summary:
          "Count a flag's calls, and where it is switched on its requests, by day and answer",
        querystring: UsageParameters,
        response: { 200: FlagUsage },
      },
    },
    async (request) => {
      const { period, query } = queryOf(request);
      const { key, lastCalledAt } = await flags.flag(query.projectId, pathIdOf(request));
      const counts = await ask(query.projectId, () =>
        flagCalls.callsByDay({ ...query, flagKey: key }),
      );
      const decisions = await decisionCounts.ofFlag(query.projectId, key, {
        from: period.from.toISOString().slice(0, 10),
        to: period.to.toISOString().slice(0, 10),
      });
      return wireUsage({ key, lastCalledAt }, { counts, decisions }, period);
    },
  );

  app.get(
    `${FLAGS}/:id/drift`,
    {
      ...access("feature_flag:read"),
      schema: {
        tags,
        summary: "Count persons who got different answers of a flag, and show what they got",
        querystring: DriftParameters,
        response: { 200: FlagDriftAnswer },
      },
    },
    async (request) => {
      const { period, query } = queryOf(request);
      const threshold = driftThresholdOf(request.query);
      const { key } = await flags.flag(query.projectId, pathIdOf(request));
      const ofFlag = { ...query, flagKey: key };
      const counts = await ask(query.projectId, () => flagCalls.drift({ ...ofFlag, limit: 1 }));
      // What single persons got is theirs: the counts are the flag's.
      const journeys = mayRead(request, "person:read")
        ? await ask(query.projectId, () => flagCalls.journeys({ ...ofFlag, limit: MAX_JOURNEYS }))
        : [];
      return wireDrift(key, counts, { journeys, period, threshold });
    },
  );

  app.get(
    `${FLAGS}/drift`,
    {
      ...access("feature_flag:read"),
      schema: {
        tags,
        summary: "Count persons who got different answers, flag by flag, most first",
        querystring: DriftParameters,
        response: { 200: DriftOfFlags },
      },
    },
    async (request) => {
      const { period, query } = queryOf(request);
      const threshold = driftThresholdOf(request.query);
      const found = await ask(query.projectId, () =>
        flagCalls.drift({ ...query, limit: MAX_FLAGS }),
      );
      return wireDriftOfFlags(found, period, threshold);
    },
  );
}
