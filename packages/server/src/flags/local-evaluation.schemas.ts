import { describeForLocalEvaluation } from "@hedgerow/core/flags/local-definitions";
import { type Static, Type } from "typebox";
import { AnyObject, MapOf } from "../http/wire-schemas.ts";
import type { LiveFlag, VersionedDefinitions } from "./flag-store.ts";
import type { FeedOptions } from "./local-evaluation.ts";

export const LocalDefinitionsParameters = Type.Object({
  token: Type.Optional(Type.String({ description: "The project's public key." })),
  send_cohorts: Type.Optional(
    Type.String({
      description:
        "Present, whatever its value: cohorts come along. Absent: conditions on cohorts are restated as conditions on properties where that is possible.",
    }),
  ),
});

/** The minimal form of a flag (posthog-api 4.1) as SDKs evaluate it. */
const LocalFlag = Type.Object({
  id: Type.Integer(),
  team_id: Type.Integer(),
  name: Type.String(),
  key: Type.String(),
  filters: AnyObject,
  deleted: Type.Boolean(),
  active: Type.Boolean(),
  ensure_experience_continuity: Type.Boolean({
    description: "True also for flags that only the server can decide: SDKs then ask it.",
  }),
  has_encrypted_payloads: Type.Boolean(),
  version: Type.Integer(),
  evaluation_runtime: Type.String(),
  evaluation_tags: Type.Array(Type.String()),
  evaluation_contexts: Type.Array(Type.String()),
  bucketing_identifier: Type.String(),
});

/** Definitions for local evaluation (posthog-api 4.6); every key is always present. */
export const LocalDefinitionsAnswer = Type.Object(
  {
    flags: Type.Array(LocalFlag),
    group_type_mapping: MapOf(Type.String()),
    cohorts: AnyObject,
  },
  { title: "LocalDefinitions" },
);

/**
 * The feed of a project's definitions: inactive flags included, so that SDKs need not ask for them;
 * flags that only carry a remote configuration left out.
 */
export function wireLocalDefinitions(
  projectId: number,
  definitions: VersionedDefinitions,
  options: FeedOptions,
): Static<typeof LocalDefinitionsAnswer> {
  const described = describeForLocalEvaluation(definitions, options);
  const flags = described.flags.flatMap(({ filters, isDecidableLocally, needsNewerSdk }, at) => {
    const flag = definitions.flags[at];
    const isDecidable = isDecidableLocally && !(options.forOlderSdks && needsNewerSdk);
    return flag === undefined || flag.isRemoteConfiguration
      ? []
      : [wireLocalFlag(projectId, flag, filters, isDecidable)];
  });
  return {
    flags,
    group_type_mapping: Object.fromEntries(
      definitions.groupTypes.map(({ index, name }) => [String(index), name]),
    ),
    cohorts: described.cohorts,
  };
}

function wireLocalFlag(
  projectId: number,
  flag: LiveFlag,
  filters: LiveFlag["filters"],
  isDecidableLocally: boolean,
): Static<typeof LocalFlag> {
  return {
    id: flag.id,
    team_id: projectId,
    name: flag.name,
    key: flag.key,
    filters,
    deleted: false,
    active: flag.active,
    // Every SDK leaves flags with continuity to the server: the one word all of them understand.
    ensure_experience_continuity:
      flag.ensureExperienceContinuity || (flag.active && !isDecidableLocally),
    has_encrypted_payloads: false,
    version: flag.version,
    evaluation_runtime: flag.evaluationRuntime,
    evaluation_tags: [...flag.evaluationContexts],
    evaluation_contexts: [...flag.evaluationContexts],
    bucketing_identifier: flag.bucketingIdentifier,
  };
}
