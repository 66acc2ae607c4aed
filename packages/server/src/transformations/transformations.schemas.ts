import type { Json, JsonObject } from "@hedgerow/core/json";
import { TRANSFORMATION_TYPES } from "@hedgerow/core/transformations/transformation";
import { type Static, Type } from "typebox";
import type { User } from "../accounts/account-store.ts";
import { UserBasic, wireAuthor } from "../accounts/accounts.schemas.ts";
import { MAX_BODY_BYTES } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { presentFields } from "../http/present-fields.ts";
import { wireInstant } from "../http/wire-instant.ts";
import { AnyObject, MapOf, maxChars, Nullable } from "../http/wire-schemas.ts";
import type { MissingSettings, NewSetting } from "./lacking-settings.ts";
import { shownAddress } from "./plugin-location.ts";
import {
  configSchemaProblem,
  MAX_MANIFEST_CHARS,
  type PluginManifest,
  publicJobsProblem,
} from "./plugin-manifest.ts";
import type { FileDifference, SourcePatch } from "./source-files.ts";
import type { CompiledVersion } from "./transformation-config-store.ts";
import type {
  TransformationChange,
  TransformationRequest,
  TransformationView,
} from "./transformation-request.ts";
import type { VersionSummary } from "./transformation-store.ts";

const SCHEMA_FORMS = [Type.Array(Type.Unknown()), AnyObject];
const schemaText = {
  description: "Declared settings: a list of fields, or an object of them by key.",
};
const Schema = Type.Union(SCHEMA_FORMS, schemaText);

const pluginFields = {
  plugin_type: Type.Enum([...TRANSFORMATION_TYPES]),
  name: Type.String(),
  description: Nullable(Type.String()),
  url: Nullable(Type.String()),
  icon: Nullable(Type.String()),
  config_schema: Schema,
  tag: Nullable(Type.String({ description: "Installed commit or version." })),
  latest_tag: Nullable(Type.String({ description: "Newest one when it was last looked for." })),
  is_global: Type.Boolean(),
  organization_id: Type.String({ description: "UUID." }),
  organization_name: Type.String(),
  capabilities: Type.Unknown({
    description: "`methods`, `jobs` and `scheduled_tasks` it exports.",
  }),
  metrics: Type.Unknown(),
  public_jobs: Type.Unknown(),
};

/** A transformation as its interface describes it (interface 2.5), with the number of its version. */
export const Plugin = Type.Object(
  {
    id: Type.Integer(),
    ...pluginFields,
    version: Type.Integer({ description: "Number of its source's version; 0 without a source." }),
    created_at: Type.String({ format: "date-time" }),
    updated_at: Type.String({ format: "date-time" }),
  },
  { title: "PipelineTransformation" },
);

const Files = MapOf(Type.String(), {
  description: "Texts of the source's files by name.",
});

export const PluginWithSource = Type.Object(
  { ...Plugin.properties, source: Files },
  { title: "PipelineTransformationWithSource" },
);

/** PostHog's clients read `plugin`, which is the same object (decision 8). */
export const CheckedPlugin = Type.Object(
  { ...Plugin.properties, plugin: Plugin },
  { title: "CheckedPipelineTransformation" },
);

export const UpgradedPlugin = Type.Object(
  {
    ...Plugin.properties,
    missing_settings: Type.Array(
      Type.Object({
        plugin_config_id: Type.Integer(),
        team_id: Type.Integer(),
        keys: Type.Array(Type.String()),
      }),
      {
        description:
          "Settings that the new version requires and a config does not have yet, and those whose value does not fit what it declares.",
      },
    ),
    new_settings: Type.Array(
      Type.Object({ key: Type.String(), name: Type.String(), required: Type.Boolean() }),
      { description: "Settings that the version before did not have, or did not require." },
    ),
  },
  { title: "UpgradedPipelineTransformation" },
);

/** What comes with the service; `id` is null until it is installed (decision 8). */
export const RepositoryItem = Type.Object(
  {
    id: Nullable(Type.Integer()),
    ...pluginFields,
    organization_id: Nullable(Type.String()),
    version: Type.Integer(),
    created_at: Nullable(Type.String({ format: "date-time" })),
    updated_at: Nullable(Type.String({ format: "date-time" })),
    verified: Type.Boolean(),
    maintainer: Type.String(),
    type: Type.String(),
  },
  { title: "RepositoryPlugin" },
);

export const PluginVersion = Type.Object(
  {
    version: Type.Integer(),
    tag: Nullable(Type.String()),
    files: Type.Array(Type.String(), { description: "Names of the files." }),
    restored_from: Nullable(Type.Integer({ description: "The version that it took up again." })),
    created_at: Type.String({ format: "date-time" }),
    created_by: Nullable(UserBasic),
  },
  { title: "PipelineTransformationVersion" },
);

export const PluginVersionWithSource = Type.Object(
  { ...PluginVersion.properties, source: Files },
  { title: "PipelineTransformationVersionWithSource" },
);

export const PluginDifference = Type.Object(
  {
    from: Type.Integer(),
    to: Type.Integer(),
    files: Type.Array(
      Type.Object({
        file: Type.String(),
        status: Type.Enum(["added", "removed", "changed"]),
        patch: Nullable(Type.String({ description: "Unified diff." })),
      }),
    ),
  },
  { title: "PipelineTransformationDifference" },
);

const writableFields = {
  plugin_type: Type.Optional(Nullable(Type.Enum([...TRANSFORMATION_TYPES]))),
  name: Type.Optional(Nullable(Type.String({ maxLength: 200 }))),
  description: Type.Optional(Nullable(Type.String({ maxLength: 100_000 }))),
  icon: Type.Optional(Nullable(Type.String({ maxLength: 800 }))),
  config_schema: Type.Optional(
    Type.Union(SCHEMA_FORMS, { ...schemaText, ...maxChars(MAX_MANIFEST_CHARS) }),
  ),
  tag: Type.Optional(Nullable(Type.String({ maxLength: 200 }))),
  is_global: Type.Optional(Type.Boolean()),
  capabilities: Type.Optional(AnyObject),
  metrics: Type.Optional(Nullable(AnyObject)),
  public_jobs: Type.Optional(Nullable(AnyObject, maxChars(MAX_MANIFEST_CHARS))),
};

export const PatchPluginBody = Type.Object(writableFields);

export const CreatePluginBody = Type.Object({
  ...writableFields,
  url: Type.Optional(
    Nullable(
      Type.String({
        maxLength: 800,
        description:
          "Where to install from: a repository on GitHub or GitLab, a package of npm, a .zip, .tar or .tar.gz archive, one of `repository`, or a folder where the operator allows it.",
      }),
    ),
  ),
  source: Type.Optional(
    Type.Union([Type.String(), MapOf(Type.String())], {
      description: "Files of what is written here, by name; or index.ts alone.",
      ...maxChars(MAX_BODY_BYTES),
    }),
  ),
});

/** Files by name, flat or under `source` beside ordinary fields; `null` takes a file away (decision 8). */
export const UpdateSourceBody = Type.Object(
  {
    ...writableFields,
    source: Type.Optional(
      Type.Union([Type.String(), MapOf(Nullable(Type.String()))], {
        description: "Texts by file name, null to take one away. They may stand beside it as well.",
        ...maxChars(MAX_BODY_BYTES),
      }),
    ),
  },
  { additionalProperties: true },
);

/** What a caller says of a transformation, besides its source. Throws a {@link Refusal}. */
export function pluginChangeOf(body: Static<typeof PatchPluginBody>): TransformationChange {
  if (body.plugin_type === "inline") {
    throw new Refusal("invalid_choice", "Inline plugins come with the service.", {
      attr: "plugin_type",
    });
  }
  const problem = body.config_schema && configSchemaProblem(body.config_schema as Json);
  if (problem) {
    throw new Refusal("invalid_input", `The schema ${problem}`, { attr: "config_schema" });
  }
  const ofJobs = publicJobsProblem((body.public_jobs ?? {}) as JsonObject);
  if (ofJobs) throw new Refusal("invalid_input", `The list ${ofJobs}`, { attr: "public_jobs" });
  return presentFields({
    type: body.plugin_type ?? undefined,
    name: body.name === null ? "" : body.name,
    description: body.description,
    icon: body.icon,
    configSchema: body.config_schema as Json | undefined,
    tag: body.tag,
    isGlobal: body.is_global,
    capabilities: body.capabilities as JsonObject | undefined,
    metrics: body.metrics as Json | undefined,
    publicJobs: body.public_jobs as Json | undefined,
  });
}

export function pluginRequestOf(body: Static<typeof CreatePluginBody>): TransformationRequest {
  const { url, source } = body;
  return {
    ...pluginChangeOf(body),
    ...presentFields({ url, source: source === undefined ? undefined : filesOf(source) }),
  };
}

/** What answers hold beside files: sent back, it names no files, whether it can be changed or not. */
const NO_FILES: ReadonlySet<string> = new Set(
  [PluginWithSource, CheckedPlugin, UpgradedPlugin].flatMap(({ properties }) =>
    Object.keys(properties),
  ),
);

/** The files that a body of `update_source` changes. */
export function sourcePatchOf(body: Static<typeof UpdateSourceBody>): SourcePatch {
  const { source } = body;
  const nested: SourcePatch = source === undefined ? {} : filesOf(source);
  const flat = Object.entries(body).filter(([name]) => !NO_FILES.has(name));
  for (const [name, text] of flat) {
    if (text === null || typeof text === "string") continue;
    throw new Refusal("invalid_input", "Not a valid string.", { attr: name });
  }
  return Object.fromEntries([...(flat as [string, string | null][]), ...Object.entries(nested)]);
}

/** A source that is given as one text is its `index.ts`. */
export function filesOf<Text extends string | null>(
  source: string | Readonly<Record<string, Text>>,
): Readonly<Record<string, Text | string>> {
  return typeof source === "string" ? { "index.ts": source } : source;
}

/** The wire form of a transformation; secrets in its address are left out. */
export function wirePlugin({
  transformation,
  organizationName,
}: TransformationView): Static<typeof Plugin> {
  return {
    id: transformation.id,
    plugin_type: transformation.type,
    name: transformation.name,
    description: transformation.description,
    url: transformation.url && shownAddress(transformation.url),
    icon: transformation.icon,
    config_schema: transformation.configSchema as Static<typeof Schema>,
    tag: transformation.tag,
    latest_tag: transformation.latestTag,
    is_global: transformation.isGlobal,
    organization_id: transformation.organizationId,
    organization_name: organizationName,
    capabilities: transformation.capabilities,
    metrics: transformation.metrics,
    public_jobs: transformation.publicJobs,
    version: transformation.version,
    created_at: wireInstant(transformation.createdAt),
    updated_at: wireInstant(transformation.updatedAt),
  };
}

export function wireMissingSettings(missing: readonly MissingSettings[]) {
  return missing.map(({ configId, projectId, keys }) => ({
    plugin_config_id: configId,
    team_id: projectId,
    keys: [...keys],
  }));
}

export function wireNewSettings(settings: readonly NewSetting[]) {
  return settings.map(({ key, name, isRequired }) => ({ key, name, required: isRequired }));
}

export function wireRepositoryItem({
  url,
  tag,
  manifest,
  installed,
}: {
  readonly url: string;
  readonly tag: string;
  readonly manifest: PluginManifest;
  readonly installed: TransformationView | null;
}): Static<typeof RepositoryItem> {
  const common = { verified: true, maintainer: "official", type: "data_in" };
  if (installed) return { ...wirePlugin(installed), latest_tag: tag, ...common };
  return {
    id: null,
    plugin_type: "repository",
    name: manifest.name ?? url,
    description: manifest.description ?? null,
    url,
    icon: manifest.icon ?? null,
    config_schema: (manifest.configSchema ?? []) as Static<typeof Schema>,
    tag,
    latest_tag: tag,
    is_global: false,
    organization_id: null,
    organization_name: "",
    capabilities: {},
    metrics: {},
    public_jobs: manifest.publicJobs ?? {},
    version: 0,
    created_at: null,
    updated_at: null,
    ...common,
  };
}

export function wireVersion(
  version: VersionSummary,
  users: ReadonlyMap<number, User>,
): Static<typeof PluginVersion> {
  return {
    version: version.version,
    tag: version.tag,
    files: [...version.fileNames],
    restored_from: version.restoredFrom,
    created_at: wireInstant(version.createdAt),
    created_by: wireAuthor(version.createdById, users),
  };
}

export function wireVersionWithSource(
  version: CompiledVersion,
  users: ReadonlyMap<number, User>,
): Static<typeof PluginVersionWithSource> {
  const fileNames = Object.keys(version.files);
  return { ...wireVersion({ ...version, fileNames }, users), source: version.files };
}

export function wireDifference(
  from: number,
  to: number,
  files: readonly FileDifference[],
): Static<typeof PluginDifference> {
  return { from, to, files: files.map((one) => ({ ...one })) };
}
