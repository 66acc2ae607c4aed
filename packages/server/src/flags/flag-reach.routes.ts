import { isJsonObject } from "@hedgerow/core/json";
import { Type } from "typebox";
import type { AccountStore } from "../accounts/account-store.ts";
import { usersById } from "../accounts/users-by-id.ts";
import { Cohort, wireCohort } from "../cohorts/cohorts.schemas.ts";
import type { App } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { access, callerOf, projectOf } from "../http/management-api.ts";
import { pathIdOf } from "../http/path-id.ts";
import { maxChars, Nullable } from "../http/wire-schemas.ts";
import type { FlagCohorts } from "./flag-cohorts.ts";
import type { FlagReach } from "./flag-reach.ts";

const FLAGS = "/api/projects/:project_id/feature_flags";
const tags = ["feature_flags"];

/** Whom a flag is for, among the persons and groups that are stored (posthog-api 4.5). */
export function flagReachRoutes(
  app: App,
  {
    reach,
    flagCohorts,
    accounts,
  }: {
    reach: FlagReach;
    flagCohorts: Pick<FlagCohorts, "create">;
    accounts: Pick<AccountStore, "user">;
  },
): void {
  app.post(
    `${FLAGS}/user_blast_radius`,
    {
      ...access("feature_flag:read"),
      schema: {
        tags,
        summary: "Count the stored persons, or groups, that match a condition",
        body: Type.Object({
          condition: Type.Optional(
            Type.Unknown({
              description: "A condition of a flag; its rollout does not count.",
              ...maxChars(4_000_000),
            }),
          ),
          group_type_index: Type.Optional(
            Nullable(Type.Integer({ minimum: 0, maximum: 4, description: "Counts these groups." })),
          ),
        }),
        response: {
          200: Type.Object({
            users_affected: Type.Integer(),
            total_users: Type.Integer(),
            is_estimate: Type.Boolean({
              description: "True when counting all would have taken too long.",
            }),
          }),
        },
      },
    },
    async (request) => {
      const { condition, group_type_index: typeIndex = null } = request.body;
      if (condition === undefined || condition === null) {
        throw new Refusal("invalid_input", "Missing condition for which to get blast radius");
      }
      if (!isJsonObject(condition)) {
        throw new Refusal("invalid_input", "The condition must be an object.", {
          attr: "condition",
        });
      }
      const counted = await reach.ofCondition(projectOf(request).id, condition, typeIndex);
      return {
        users_affected: counted.affected,
        total_users: counted.total,
        is_estimate: counted.isEstimate,
      };
    },
  );

  app.post(
    `${FLAGS}/:id/create_static_cohort_for_flag`,
    {
      ...access("feature_flag:write"),
      schema: {
        tags,
        summary: "Make a static cohort of the stored persons for whom a flag is on",
        response: { 201: Type.Object({ cohort: Cohort }) },
      },
    },
    async (request, reply) => {
      const { id: projectId } = projectOf(request);
      const { user } = callerOf(request);
      const filled = await flagCohorts.create(projectId, pathIdOf(request), user.id);
      const users = await usersById(accounts, [filled.createdById]);
      return reply.code(201).send({ cohort: wireCohort(filled, users) });
    },
  );
}
