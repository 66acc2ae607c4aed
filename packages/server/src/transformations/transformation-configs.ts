import { isDeepStrictEqual } from "node:util";
import { cleanText } from "@hedgerow/core/events/clean-json";
import { type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import {
  type ConfigFault,
  type ConfigField,
  configFieldsOf,
  validateConfig,
} from "@hedgerow/core/transformations/config-schema";
import { secretPayloadKeys } from "@hedgerow/core/transformations/public-jobs";
import type {
  Attachment,
  ConfigProblem,
  Transformation,
} from "@hedgerow/core/transformations/transformation";
import type { AccountStore, Project } from "../accounts/account-store.ts";
import type { ActivityDraft, FieldChange, TriggeredJob } from "../activity/activity-log.ts";
import { changesBetween } from "../activity/describe-change.ts";
import { Refusal } from "../http/errors.ts";
import type {
  AttachmentChange,
  ConfigView,
  ConfigWrite,
  TransformationConfigFields,
  TransformationConfigStore,
} from "./transformation-config-store.ts";
import type { TransformationStore } from "./transformation-store.ts";
import { type AccessLevel, refuseBelow } from "./transformations.ts";

/** What is shown in place of a secret, and taken to mean the stored one (posthog-api 6.7). */
const SECRET_MASK = "**************** POSTHOG SECRET FIELD ****************";

/** What a caller may say of a config. */
export type ConfigChange = Partial<
  Pick<
    TransformationConfigFields,
    "enabled" | "order" | "config" | "name" | "description" | "allowedHosts" | "deleted"
  >
>;

export interface ConfigDraft extends ConfigChange {
  readonly transformationId: number;
}

const NO_ATTACHMENTS: AttachmentChange = { put: [], removeKeys: [] };
const MAX_ATTACHMENT_BYTES = 16 * 1024 * 1024;
/** Settings of one config as JSON, or the payload of a job. */
const MAX_CONFIG_CHARS = 1_000_000;
/** Of a job's payload, so much is told in the activity; no field is begun with less room. */
const MAX_TOLD_CHARS = 4_000;
const MIN_TOLD_CHARS = 100;

/** Configs as their projects handle them. Ids of other projects' configs are unknown ids (404). */
export interface TransformationConfigs {
  /** Throws where the operator lets nobody see configs. */
  mayRead(): void;
  list(
    project: Project,
    query: {
      readonly transformationId: number | null;
      readonly limit: number;
      readonly offset: number;
    },
  ): Promise<{ count: number; configs: readonly ConfigView[] }>;
  config(project: Pick<Project, "id">, id: number): Promise<ConfigView>;
  create(
    project: Project,
    draft: ConfigDraft,
    attachments: AttachmentChange,
    authorId: number,
  ): Promise<ConfigView>;
  update(
    project: Project,
    id: number,
    change: ConfigChange,
    attachments: AttachmentChange,
    authorId: number,
  ): Promise<ConfigView>;
  /** Gives configs their order, by id; answers all that are enabled. */
  rearrange(
    project: Project,
    orders: ReadonlyMap<number, number>,
    authorId: number,
  ): Promise<readonly ConfigView[]>;
  attachment(project: Project, id: number, key: string): Promise<Attachment>;
  /** Keeps in the activity that somebody had a job run, and with what: masked and shortened. */
  noteJob(project: Project, id: number, job: TriggeredJob, authorId: number): Promise<void>;
  /** Enabled configs of an organization's projects that export events. */
  exporting(organizationId: string): Promise<readonly ConfigView[]>;
  /**
   * Takes a config out of work for what it did, with a reason that its owners read: in its record
   * and in the activity. `false` where it is not enabled any more.
   */
  disableFailing(projectId: number, id: number, reason: string): Promise<boolean>;
}

/** {@link TransformationConfigs} over their store. */
export function createTransformationConfigs({
  store,
  transformations,
  accounts,
  accessLevel,
  onChanged,
  atWork,
  clock,
}: {
  store: TransformationConfigStore;
  transformations: Pick<TransformationStore, "transformation">;
  accounts: Pick<AccountStore, "projectsOf">;
  accessLevel: AccessLevel;
  /** Told of a project in which something else runs now; the change is answered after that. */
  onChanged: (projectId: number) => Promise<void>;
  /** Enabled configs as they run: they are started when they are enabled, and say what is wrong. */
  atWork: {
    tryStart(projectId: number, configId: number): Promise<void>;
    startProblem(projectId: number, configId: number): ConfigProblem | null;
  };
  clock: () => Date;
}): TransformationConfigs {
  const mayConfigure = (): void => refuseBelow("config", accessLevel);

  const write = (authorId: number | null, attachments = NO_ATTACHMENTS): ConfigWrite => ({
    authorId,
    now: clock(),
    describe: (before, after) => describeConfig(before, after, attachments),
  });

  const known = async (project: Pick<Project, "id">, id: number): Promise<ConfigView> => {
    mayConfigure();
    const found = await store.config(project.id, id);
    if (!found) throw new Refusal("not_found", "Not found.");
    return found;
  };

  /** A config with what is wrong with it now. */
  const asItRuns = (view: ConfigView): ConfigView => {
    const { id, projectId, enabled, problem } = view.config;
    if (!enabled || problem) return view;
    return { ...view, config: { ...view.config, problem: atWork.startProblem(projectId, id) } };
  };

  /** A config that was just changed, tried out where it is enabled. */
  const tried = async (view: ConfigView): Promise<ConfigView> => {
    const { id, projectId, enabled } = view.config;
    await onChanged(projectId);
    if (enabled) await atWork.tryStart(projectId, id);
    return asItRuns(view);
  };

  return {
    mayRead: mayConfigure,

    async list(project, query) {
      mayConfigure();
      const { count, configs } = await store.list(project.id, query);
      return { count, configs: configs.map(asItRuns) };
    },

    config: async (project, id) => asItRuns(await known(project, id)),

    async create(project, { transformationId, ...draft }, attachments, authorId) {
      mayConfigure();
      const transformation = await transformations.transformation(
        project.organizationId,
        transformationId,
      );
      if (!transformation) throw unknownTransformation(transformationId);
      checkAttachments(attachments, transformation);
      const fields: TransformationConfigFields = {
        enabled: false,
        order: await nextOrder(store, project.id),
        name: null,
        description: null,
        allowedHosts: [],
        deleted: false,
        ...draft,
        transformationId,
        problem: null,
        ...settled(draft.config ?? {}, transformation.configSchema, undefined),
      };
      const given = new Set(attachments.put.map(({ key }) => key));
      if (fields.enabled || draft.config) {
        refuseFaults(fields.config, transformation.configSchema, {
          attachments: given,
          given: draft.config,
          isDraft: !fields.enabled,
        });
      }
      const made = await store.create(
        project.id,
        fields.deleted ? { ...fields, enabled: false } : fields,
        attachments,
        write(authorId, attachments),
      );
      if (!made) throw unknownTransformation(transformationId);
      return tried(made);
    },

    async update(project, id, change, attachments, authorId) {
      mayConfigure();
      const saved = await store.update(
        project.id,
        id,
        (current) => {
          const { transformation } = current;
          checkAttachments(attachments, transformation);
          const settings =
            change.config && settled(change.config, transformation.configSchema, current.config);
          const after = { ...current.config, ...change, ...settings };
          const isEnabling = change.enabled === true && !current.config.enabled;
          if (
            after.deleted !== true &&
            (settings || isEnabling || attachments.removeKeys.length > 0)
          ) {
            refuseFaults(after.config, transformation.configSchema, {
              attachments: keysAfter(current, attachments),
              given: change.config,
              stored: current.config,
              isDraft: !after.enabled,
            });
          }
          return {
            ...change,
            ...settings,
            ...(after.deleted && { enabled: false }),
            ...(isEnabling && { problem: null }),
          };
        },
        attachments,
        write(authorId, attachments),
      );
      if (!saved) throw new Refusal("not_found", "Not found.");
      return tried(saved);
    },

    async rearrange(project, orders, authorId) {
      mayConfigure();
      await store.rearrange(project.id, orders, write(authorId));
      await onChanged(project.id);
      const { configs } = await store.list(project.id, ALL);
      return configs.filter(({ config }) => config.enabled).map(asItRuns);
    },

    async attachment(project, id, key) {
      await known(project, id);
      const found = await store.attachment(project.id, id, key);
      if (!found) throw new Refusal("not_found", "Not found.");
      return found;
    },

    async noteJob(project, id, job, authorId) {
      await store.update(project.id, id, () => ({}), NO_ATTACHMENTS, {
        authorId,
        now: clock(),
        describe: (_, { config, transformation }) => [
          {
            scope: "PluginConfig",
            itemId: String(config.id),
            itemVersion: null,
            activity: "job_triggered",
            name: config.name ?? transformation.name,
            changes: [],
            job: { ...job, payload: shownPayload(job, transformation.publicJobs) },
          },
        ],
      });
    },

    async exporting(organizationId) {
      mayConfigure();
      const projects = await accounts.projectsOf(organizationId);
      const lists = await Promise.all(projects.map(({ id }) => store.list(id, ALL)));
      return lists
        .flatMap(({ configs }) => configs)
        .filter(({ config, transformation }) => config.enabled && exportsEvents(transformation));
    },

    async disableFailing(projectId, id, reason) {
      let wasEnabled = false;
      const at = clock();
      await store.update(
        projectId,
        id,
        ({ config }) => {
          wasEnabled = config.enabled;
          return wasEnabled ? { enabled: false, problem: { message: reason, at } } : {};
        },
        NO_ATTACHMENTS,
        write(null),
      );
      return wasEnabled;
    },
  };
}

/** More configs than a project will have. */
const ALL = { transformationId: null, limit: 1_000, offset: 0 };

/** The refusal of an id that names no transformation, or none that the organization sees. */
export function unknownTransformation(id: number): Refusal {
  return new Refusal("invalid_input", `Invalid pk "${id}" - object does not exist.`, {
    attr: "plugin",
  });
}

async function nextOrder(
  store: Pick<TransformationConfigStore, "list">,
  projectId: number,
): Promise<number> {
  const { configs } = await store.list(projectId, ALL);
  return configs.reduce((order, { config }) => Math.max(order, config.order + 1), 1);
}

function exportsEvents({ capabilities }: Transformation): boolean {
  const methods = ownValue(capabilities, "methods");
  return Array.isArray(methods) && methods.includes("exportEvents");
}

/** Settings and which of them are secret. */
export type Settings = Pick<TransformationConfigFields, "config" | "secretKeys">;

/**
 * Settings as they are kept: without what stands for attachments, and with the stored secret where
 * one was left out or came back masked. A secret stays one until another value takes its place,
 * whatever is declared of it by then.
 */
export function settled(
  config: JsonObject,
  configSchema: Json,
  stored: Settings | undefined,
): Settings {
  refuseLong("Settings have", config, "config");
  const kept = new Map<string, Json>(Object.entries(config));
  const fields = configFieldsOf(configSchema);
  // Before secrets come back: one may stand under the key of what is an attachment for now.
  for (const { key, type } of fields) if (type === "attachment") kept.delete(key);
  const declared = secretKeysOf(fields);
  const secretKeys: string[] = [];
  for (const key of new Set([...declared, ...(stored?.secretKeys ?? [])])) {
    if (isNew(kept.get(key))) {
      if (declared.has(key)) secretKeys.push(key);
      continue;
    }
    const secret = stored && ownValue(stored.config, key);
    kept.delete(key);
    if (secret === undefined) continue;
    kept.set(key, secret);
    secretKeys.push(key);
  }
  return {
    config: Object.fromEntries(kept),
    secretKeys: secretKeys.filter((key) => kept.has(key)),
  };
}

/** Throws a {@link Refusal} for what is longer, as JSON, than settings may be. */
export function refuseLong(subject: string, value: JsonObject, attr: string): void {
  if (textOf(value).length <= MAX_CONFIG_CHARS) return;
  const detail = `${subject} no more than ${MAX_CONFIG_CHARS} characters.`;
  throw new Refusal("invalid_input", detail, { attr });
}

function textOf(value: Json): string {
  return JSON.stringify(value, (_, inner) => (typeof inner === "bigint" ? String(inner) : inner));
}

/** Whether a value was sent for a secret, rather than nothing or the mask. */
function isNew(value: Json | undefined): value is Json {
  return value !== undefined && value !== SECRET_MASK;
}

function secretKeysOf(fields: readonly ConfigField[]): ReadonlySet<string> {
  return new Set(fields.filter((field) => field.secret).map(({ key }) => key));
}

/**
 * Settings as they may be shown (posthog-api 6.7): masked are what was given as a secret and what
 * is declared as one now.
 */
export function maskSecrets(
  { config, secretKeys }: Settings,
  fields: readonly ConfigField[],
): JsonObject {
  const secret = new Set([...secretKeys, ...secretKeysOf(fields)]);
  return Object.fromEntries(
    Object.entries(config).map(([key, value]) => [key, secret.has(key) ? masked(value) : value]),
  );
}

function masked(value: Json): Json {
  return value === null || value === "" ? value : SECRET_MASK;
}

/**
 * Settings for code that may be anybody's: masked are stored secrets, but not what the caller gave.
 * @param given what the caller gave, if anything
 */
export function maskStored(
  settings: JsonObject,
  stored: Settings,
  fields: readonly ConfigField[],
  given: JsonObject | undefined,
): JsonObject {
  const shown = maskSecrets({ config: settings, secretKeys: stored.secretKeys }, fields);
  return Object.fromEntries(
    Object.entries(shown).map(([key, value]) => {
      const own = given && ownValue(given, key);
      return [key, isNew(own) ? own : value];
    }),
  );
}

function keysAfter(
  { attachments }: ConfigView,
  { put, removeKeys }: AttachmentChange,
): ReadonlySet<string> {
  const keys = new Set(attachments.map(({ key }) => key));
  for (const key of removeKeys) keys.delete(key);
  for (const { key } of put) keys.add(key);
  return keys;
}

const FAULT_CODES = {
  required: "required",
  invalid: "invalid_input",
  choice: "invalid_choice",
} as const satisfies Record<ConfigFault["kind"], string>;

/**
 * Throws a {@link Refusal} for the first setting that cannot be taken. It shows the value only if the
 * caller gave it, and not for a secret.
 * @param attachments keys of the attachments that the settings come with
 * @param given settings of the caller
 * @param stored settings in whose place they come
 * @param isDraft nothing has to be there yet
 * @param isMasked secrets are masked: what a mask stands for is not found wrong
 */
export function refuseFaults(
  config: JsonObject,
  configSchema: Json,
  {
    attachments,
    given = {},
    stored,
    isDraft = false,
    isMasked = false,
  }: {
    readonly attachments: ReadonlySet<string>;
    readonly given?: JsonObject | undefined;
    readonly stored?: Settings | undefined;
    readonly isDraft?: boolean;
    readonly isMasked?: boolean;
  },
): void {
  const fields = configFieldsOf(configSchema);
  const tellable = new Set(Object.keys(given));
  for (const key of secretKeysOf(fields)) tellable.delete(key);
  for (const key of stored?.secretKeys ?? []) tellable.delete(key);
  const fault = validateConfig(config, fields, attachments, tellable).find(({ kind, key }) =>
    kind === "required" ? !isDraft : !(isMasked && ownValue(config, key) === SECRET_MASK),
  );
  if (!fault) return;
  throw new Refusal(FAULT_CODES[fault.kind], fault.message, { attr: `config__${fault.key}` });
}

function checkAttachments({ put }: AttachmentChange, { configSchema }: Transformation): void {
  if (put.length === 0) return;
  const fields = new Map(configFieldsOf(configSchema).map((field) => [field.key, field]));
  for (const { key, contents } of put) {
    const attr = `add_attachment[${key}]`;
    if (fields.get(key)?.type !== "attachment") {
      throw new Refusal("invalid_input", "The plugin declares no such attachment.", { attr });
    }
    if (contents.byteLength > MAX_ATTACHMENT_BYTES) {
      throw new Refusal(
        "invalid_input",
        `Ensure this file has no more than ${MAX_ATTACHMENT_BYTES} bytes.`,
        { attr },
      );
    }
  }
}

/** What is told of a job's payload: secrets masked, and of the rest as much as an activity holds. */
function shownPayload({ name, payload }: TriggeredJob, publicJobs: Json): JsonObject {
  const secret = secretPayloadKeys(publicJobs, name);
  const shown = new Map<string, Json>();
  const entries = Object.entries(payload);
  let room = MAX_TOLD_CHARS;
  for (const [index, [key, value]] of entries.entries()) {
    if (room < key.length + MIN_TOLD_CHARS) {
      shown.set("…", `${entries.length - index} more`);
      break;
    }
    const whole = secret.has(key) ? masked(value) : value;
    const isLong = textOf(whole).length > room - key.length;
    const part = typeof whole === "string" ? cleanText(whole.slice(0, room - key.length)) : "";
    const told = isLong ? `${part}…` : whole;
    shown.set(key, told);
    room -= key.length + textOf(told).length;
  }
  return Object.fromEntries(shown);
}

/** What the activity tells of a change: one entry for each kind of it, secrets masked. */
function describeConfig(
  before: ConfigView | null,
  after: ConfigView,
  { put, removeKeys }: AttachmentChange,
): readonly ActivityDraft[] {
  const draft = (
    activity: ActivityDraft["activity"],
    changes: readonly FieldChange[] = [],
  ): ActivityDraft => ({
    scope: "PluginConfig",
    itemId: String(after.config.id),
    itemVersion: null,
    activity,
    name: after.config.name ?? after.transformation.name,
    changes,
  });
  const drafts: ActivityDraft[] = [];
  if (before === null) drafts.push(draft("created"));
  const wasEnabled = before?.config.enabled ?? false;
  if (after.config.deleted && before?.config.deleted === false) drafts.push(draft("deleted"));
  if (after.config.enabled !== wasEnabled) {
    const reason: FieldChange[] = after.config.problem
      ? [{ field: "error", before: null, after: after.config.problem.message }]
      : [];
    drafts.push(
      draft(after.config.enabled ? "enabled" : "disabled", [
        { field: "enabled", before: wasEnabled, after: after.config.enabled },
        ...(after.config.enabled ? [] : reason),
      ]),
    );
  }
  if (before === null) return [...drafts, ...attachmentDrafts(draft, before, put, removeKeys)];
  const changes = [
    ...settingChanges(before, after),
    ...changesBetween(before.config, after.config, ["name", "description", "allowedHosts"]),
  ];
  if (changes.length > 0) drafts.push(draft("config_updated", changes));
  if (before.config.order !== after.config.order) {
    drafts.push(
      draft("order_changed", [
        { field: "order", before: before.config.order, after: after.config.order },
      ]),
    );
  }
  return [...drafts, ...attachmentDrafts(draft, before, put, removeKeys)];
}

function attachmentDrafts(
  draft: (activity: ActivityDraft["activity"], changes: readonly FieldChange[]) => ActivityDraft,
  before: ConfigView | null,
  put: readonly Attachment[],
  removeKeys: readonly string[],
): readonly ActivityDraft[] {
  const nameOf = (key: string): string | null =>
    before?.attachments.find((one) => one.key === key)?.fileName ?? null;
  return [
    ...put.map(({ key, fileName }) => {
      const old = nameOf(key);
      return draft(old === null ? "attachment_created" : "attachment_updated", [
        { field: key, before: old, after: fileName },
      ]);
    }),
    ...removeKeys.flatMap((key) => {
      const old = nameOf(key);
      return old === null
        ? []
        : [draft("attachment_deleted", [{ field: key, before: old, after: null }])];
    }),
  ];
}

/** Changed settings, each by its key; a changed secret shows that it changed and no more. */
function settingChanges(before: ConfigView, after: ConfigView): readonly FieldChange[] {
  const fields = configFieldsOf(after.transformation.configSchema);
  const [old, fresh] = [before.config.config, after.config.config];
  const [oldShown, freshShown] = [
    maskSecrets(before.config, fields),
    maskSecrets(after.config, fields),
  ];
  const keys = [...new Set([...Object.keys(old), ...Object.keys(fresh)])];
  return keys.flatMap((key) => {
    if (isDeepStrictEqual(ownValue(old, key) ?? null, ownValue(fresh, key) ?? null)) return [];
    const show = (shown: JsonObject): Json => ownValue(shown, key) ?? null;
    return [{ field: key, before: show(oldShown), after: show(freshShown) }];
  });
}
