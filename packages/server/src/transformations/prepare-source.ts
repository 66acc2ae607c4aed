import type { TransformationFiles } from "@hedgerow/core/transformations/transformation";
import { Refusal } from "../http/errors.ts";
import { compileSource } from "./compile-source.ts";
import type { FetchedPlugin } from "./fetch-plugin.ts";
import { checkPosthogVersion, type PluginManifest, readManifest } from "./plugin-manifest.ts";
import type { Sandbox } from "./sandbox.ts";
import type { TransformationChange } from "./transformation-request.ts";
import type { SourceDraft } from "./transformation-store.ts";

/** A state of a source, compiled, and what it says of the transformation. */
export interface PreparedSource {
  readonly source: SourceDraft;
  readonly manifest: PluginManifest | undefined;
  readonly change: TransformationChange;
}

/**
 * Compiles a state of a source. Throws a {@link Refusal} for one that is wrong.
 * @param attr the field that the files came in
 */
export async function prepareSource(
  sandbox: Pick<Sandbox, "compile">,
  files: TransformationFiles,
  {
    tag,
    restoredFrom = null,
    attr,
  }: { tag: string | null; restoredFrom?: number | null; attr: string },
): Promise<PreparedSource> {
  const manifest = readManifest(files, attr);
  const program = await compileSource(sandbox, files, attr);
  return {
    source: { files, program, tag, restoredFrom },
    manifest,
    change: {
      ...fieldsOf(manifest),
      capabilities: {
        methods: program?.methods ?? [],
        jobs: program?.jobs ?? [],
        scheduled_tasks: program?.scheduledTasks ?? [],
      },
      metrics: program?.metrics ?? {},
    },
  };
}

/** What was fetched, compiled. Throws a {@link Refusal} for what is no plugin, or none for here. */
export async function prepareFetched(
  sandbox: Pick<Sandbox, "compile">,
  plugin: FetchedPlugin,
): Promise<PreparedSource> {
  const manifest = readManifest(plugin.files, "source");
  if (!manifest) throw new Refusal("invalid_input", "Could not find plugin.json in the plugin");
  checkPosthogVersion(manifest);
  const prepared = await prepareSource(sandbox, plugin.files, { tag: plugin.tag, attr: "source" });
  if (!prepared.source.program) {
    throw new Refusal("invalid_input", "Could not find the code of the plugin", {
      attr: "source",
    });
  }
  return prepared;
}

/**
 * What becomes of the fields that `plugin.json` declared before a change of the files and does not
 * any more: they are as empty as those of a transformation without them.
 */
export function withdrawnFields(
  before: TransformationFiles,
  after: TransformationFiles,
): TransformationChange {
  const [old, fresh] = [savedManifest(before), savedManifest(after)];
  const isGone = (field: keyof PluginManifest) =>
    old?.[field] !== undefined && fresh?.[field] === undefined;
  return {
    ...(isGone("description") && { description: null }),
    ...(isGone("icon") && { icon: null }),
    ...(isGone("configSchema") && { configSchema: {} }),
    ...(isGone("publicJobs") && { publicJobs: {} }),
  };
}

/** The manifest of a source that was taken once, though its like may be refused now. */
function savedManifest(files: TransformationFiles): PluginManifest | undefined {
  try {
    return readManifest(files, null);
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

/** What a `plugin.json` decides of its transformation. */
function fieldsOf(manifest: PluginManifest | undefined): TransformationChange {
  if (!manifest) return {};
  const { name, description, icon, configSchema, publicJobs } = manifest;
  return {
    ...(name !== undefined && { name }),
    ...(description !== undefined && { description }),
    ...(icon !== undefined && { icon }),
    ...(configSchema !== undefined && { configSchema }),
    ...(publicJobs !== undefined && { publicJobs }),
  };
}
