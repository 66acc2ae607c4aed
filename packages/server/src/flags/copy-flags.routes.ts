import { Type } from "typebox";
import type { AccountStore, Project } from "../accounts/account-store.ts";
import type { App } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { access, callerOf, organizationOf } from "../http/management-api.ts";
import type { CopyFlag } from "./copy-flags.ts";
import type { TellFlags } from "./flags.routes.ts";
import { Flag } from "./flags.schemas.ts";

const MAX_TARGETS = 100;

/** Copies of flags from one project of an organization to others, in PostHog's form. */
export function copyFlagRoutes(
  app: App,
  {
    copyFlag,
    accounts,
    tellFlags,
  }: {
    copyFlag: CopyFlag;
    accounts: Pick<AccountStore, "projectsOf">;
    tellFlags: TellFlags;
  },
): void {
  app.post(
    "/api/organizations/:organization_id/feature_flags/copy_flags",
    {
      ...access("feature_flag:write", "organization"),
      schema: {
        tags: ["feature_flags"],
        summary: "Copy a flag to other projects, with the cohorts it uses",
        body: Type.Object({
          feature_flag_key: Type.String({ minLength: 1, maxLength: 400 }),
          from_project: Type.Integer(),
          target_project_ids: Type.Array(Type.Integer(), { minItems: 1, maxItems: MAX_TARGETS }),
        }),
        response: {
          200: Type.Object({
            success: Type.Array(Flag),
            failed: Type.Array(
              Type.Object({ project_id: Type.Integer(), error_message: Type.String() }),
            ),
          }),
        },
      },
    },
    async (request) => {
      const { feature_flag_key: key, from_project, target_project_ids } = request.body;
      const projects = await accounts.projectsOf(organizationOf(request).organization.id);
      const projectOf = (id: number, attr: string): Project => {
        const project = projects.find((known) => known.id === id);
        if (project) return project;
        throw new Refusal("invalid_input", `The organization has no project ${id}.`, { attr });
      };
      const from = projectOf(from_project, "from_project");
      const ids = [...new Set(target_project_ids)];
      if (ids.includes(from.id)) {
        throw new Refusal("invalid_input", "A flag is not copied to its own project.", {
          attr: "target_project_ids",
        });
      }
      const targets = ids.map((id) => projectOf(id, "target_project_ids"));
      const outcomes = await copyFlag(from, key, {
        targets,
        authorId: callerOf(request).user.id,
      });
      const copies = outcomes.flatMap((outcome) =>
        outcome.kind === "copied" ? [outcome.flag] : [],
      );
      const told = await Promise.all(copies.map((flag) => tellFlags(flag.projectId, [flag])));
      return {
        success: told.flat(),
        failed: outcomes.flatMap((outcome) =>
          outcome.kind === "failed"
            ? [{ project_id: outcome.projectId, error_message: outcome.reason }]
            : [],
        ),
      };
    },
  );
}
