import type { Static } from "typebox";
import type { App } from "../http/app.ts";
import { type ExperimentPartDeps, experimentPartRoutes } from "./experiment-part.routes.ts";
import {
  CreateHoldoutBody,
  holdoutChangeOf,
  newConditionsOf,
  PatchHoldoutBody,
  WireHoldout,
  wireHoldout,
} from "./holdouts.schemas.ts";
import type { Holdout, HoldoutChange, HoldoutDraft } from "./holdouts.ts";

/** Management of the people who are kept out of experiments (posthog-api 5.14). */
export function holdoutRoutes(
  app: App,
  deps: ExperimentPartDeps<Holdout, HoldoutDraft, HoldoutChange>,
): void {
  experimentPartRoutes(app, deps, {
    path: "/api/projects/:project_id/experiment_holdouts",
    scope: "ExperimentHoldout",
    schemas: { create: CreateHoldoutBody, patch: PatchHoldoutBody, wire: WireHoldout },
    summaries: {
      list: "List holdouts, newest first",
      create: "Create a holdout: a share of everyone that is kept out of its experiments",
      read: "Read a holdout",
      patch: "Change a holdout, and the flags of its experiments with it",
      put: "Change a holdout, naming it",
      remove: "Delete a holdout; its experiments and their flags go on without it",
    },
    changeOf: (body: Static<typeof PatchHoldoutBody>) => holdoutChangeOf(body),
    draftOf: (body) => {
      const change = holdoutChangeOf(body);
      return { ...change, name: body.name, conditions: newConditionsOf(change) };
    },
    wire: wireHoldout,
  });
}
