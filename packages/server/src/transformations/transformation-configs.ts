import { ownValue } from "@hedgerow/core/json";
import type {
  Attachment,
  ConfigProblem,
  Transformation,
} from "@hedgerow/core/transformations/transformation";
import type { AccountStore, Project } from "../accounts/account-store.ts";
import type { TriggeredJob } from "../activity/activity-log.ts";
import { Refusal } from "../http/errors.ts";
import { type AccessLevel, refuseBelow } from "./plugins-access.ts";
import { checkAttachments, refuseFaults } from "./refuse-settings.ts";
import { isSecretKey, secretsWithFiles, settled } from "./secret-settings.ts";
import { describeConfig, shownPayload } from "./tell-changes.ts";
import type {
  AttachmentChange,
  ConfigView,
  ConfigWrite,
  NewConfigFields,
  TransformationConfigFields,
  TransformationConfigStore,
} from "./transformation-config-store.ts";
import type { TransformationStore } from "./transformation-store.ts";

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
    const hasSource = view.transformation.version > 0;
    const found = hasSource
      ? atWork.startProblem(projectId, id)
      : { message: "It has no source yet.", at: view.config.updatedAt };
    return { ...view, config: { ...view.config, problem: found } };
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
      const { configSchema: schema } = transformation;
      const settings = settled(draft.config ?? {}, schema, undefined);
      const fields: NewConfigFields = {
        enabled: false,
        order: "last",
        name: null,
        description: null,
        allowedHosts: [],
        deleted: false,
        ...draft,
        transformationId,
        problem: null,
        ...settings,
        secretKeys: secretsWithFiles(settings, schema, undefined, attachments),
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
          const { configSchema: schema } = transformation;
          return {
            ...change,
            ...settings,
            secretKeys: secretsWithFiles(after, schema, current, attachments),
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
      const view = await known(project, id);
      if (view.attachments.some((one) => one.key === key) && isSecretKey(view, key)) {
        throw new Refusal("permission_denied", "Secret files are not shown.");
      }
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

/** Throws a {@link Refusal} where what is asked of a config names another plugin than its own. */
export function refuseOtherPlugin({ config }: ConfigView, named: number | undefined): void {
  if (named === undefined || named === config.transformationId) return;
  throw new Refusal("invalid_input", "A config stays with its plugin.", { attr: "plugin" });
}

function exportsEvents({ capabilities }: Transformation): boolean {
  const methods = ownValue(capabilities, "methods");
  return Array.isArray(methods) && methods.includes("exportEvents");
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
