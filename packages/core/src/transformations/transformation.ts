import type { Json, JsonObject } from "../json.ts";

/**
 * Where a transformation comes from: `local` from a folder of the server, `custom` from an address,
 * `repository` from the catalogue, `source` written here, `inline` built in.
 */
export const TRANSFORMATION_TYPES = ["local", "custom", "repository", "source", "inline"] as const;

export type TransformationType = (typeof TRANSFORMATION_TYPES)[number];

/** Text files of a transformation by path ("plugin.json", "index.ts", "src/a.js", …). */
export type TransformationFiles = Readonly<Record<string, string>>;

/** A transformation as an organization has it. */
export interface Transformation {
  readonly id: number;
  /** UUID of the organization that installed it and alone may change it. */
  readonly organizationId: string;
  readonly type: TransformationType;
  /** At most 200 characters. */
  readonly name: string;
  readonly description: string | null;
  /** Where it was installed from, with whatever secret it carries; `null` for what was written here. */
  readonly url: string | null;
  readonly icon: string | null;
  /** As declared by `plugin.json` or its owner: a list of fields or an object of them by key. */
  readonly configSchema: Json;
  /** The installed commit or version. */
  readonly tag: string | null;
  /** The newest commit or version when it was last looked for. */
  readonly latestTag: string | null;
  readonly latestTagCheckedAt: Date | null;
  /** Whether every organization may use it. */
  readonly isGlobal: boolean;
  /** What the current version exports (`methods`, `jobs`, `scheduled_tasks`), or as its owner says. */
  readonly capabilities: JsonObject;
  readonly metrics: Json;
  readonly publicJobs: Json;
  /** Number of its current version; 0 while it has no source. */
  readonly version: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** One state of a transformation's source. Versions count from 1 and never change. */
export interface TransformationVersion {
  readonly transformationId: number;
  readonly version: number;
  readonly files: TransformationFiles;
  /** The commit or release it is, for what was installed. */
  readonly tag: string | null;
  /** The version whose files it took up again; `null` for new files. */
  readonly restoredFrom: number | null;
  readonly createdAt: Date;
  /** User id; `null` once the user is gone. */
  readonly createdById: number | null;
}

/** A transformation at work in a project, with its settings there. */
export interface TransformationConfig {
  readonly id: number;
  readonly projectId: number;
  readonly transformationId: number;
  readonly enabled: boolean;
  /** Enabled ones run by ascending order, equals by id. */
  readonly order: number;
  /** Settings as given, secrets in clear; attachments are kept apart. */
  readonly config: JsonObject;
  /** Settings that were given as secrets: they are not shown, whatever is declared of them by now. */
  readonly secretKeys: readonly string[];
  /** Shown instead of the transformation's; `null` for that. */
  readonly name: string | null;
  readonly description: string | null;
  /** Hosts that its `fetch` may reach: names, or `*.name` for all below one. */
  readonly allowedHosts: readonly string[];
  /** Why it was disabled by the service; gone once somebody enables it again. */
  readonly problem: ConfigProblem | null;
  readonly deleted: boolean;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** Why the service took a config out of work. */
export interface ConfigProblem {
  readonly message: string;
  readonly at: Date;
}

/** A file given as a setting. */
export interface Attachment {
  readonly key: string;
  readonly fileName: string;
  readonly contentType: string;
  readonly contents: Uint8Array;
}
