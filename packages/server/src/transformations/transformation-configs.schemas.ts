import { cleanText } from "@hedgerow/core/events/clean-json";
import type { JsonObject } from "@hedgerow/core/json";
import { configFieldsOf } from "@hedgerow/core/transformations/config-schema";
import { durationAt } from "@hedgerow/core/transformations/durations";
import { type Static, Type } from "typebox";
import { MAX_BODY_BYTES } from "../http/app.ts";
import { bodyOfForm } from "../http/body-of-form.ts";
import { Refusal } from "../http/errors.ts";
import { presentFields } from "../http/present-fields.ts";
import type { FormFile } from "../http/read-form.ts";
import type { JsonReader } from "../http/read-json-in-turn.ts";
import { wireInstant } from "../http/wire-instant.ts";
import { AnyObject, MapOf, maxChars, Nullable } from "../http/wire-schemas.ts";
import { grantFault } from "../platform/granted-hosts.ts";
import { isSecretKey, MASKED_TYPE, maskSecrets, SECRET_MASK } from "./secret-settings.ts";
import {
  type AttachmentChange,
  type ConfigView,
  MAX_ORDER,
} from "./transformation-config-store.ts";
import type { ConfigChange } from "./transformation-configs.ts";
import {
  type HourTally,
  LOG_SOURCES,
  LOG_TYPES,
  type TransformationLogEntry,
} from "./transformation-records.ts";
import type { TrialRequest } from "./transformation-trials.ts";
import { filesOf, Plugin, wirePlugin } from "./transformations.schemas.ts";
import { MAX_TRIAL_EVENTS } from "./trial-events.ts";
import type { TrialOutcome } from "./try-transformation.ts";

/** A transformation at work in a project (posthog-api 6.7), with the hosts that it may reach. */
export const PluginConfig = Type.Object(
  {
    id: Type.Integer(),
    plugin: Type.Integer(),
    enabled: Type.Boolean(),
    order: Type.Integer(),
    config: MapOf(Type.Unknown(), {
      description: "Settings; secrets are masked, attachments told by name, size and type.",
    }),
    error: Nullable(
      Type.Object({ message: Type.String(), time: Type.String({ format: "date-time" }) }),
    ),
    team_id: Type.Integer(),
    plugin_info: Nullable(Plugin),
    delivery_rate_24h: Nullable(Type.Number()),
    created_at: Type.String({ format: "date-time" }),
    updated_at: Type.String({ format: "date-time" }),
    name: Nullable(Type.String()),
    description: Nullable(Type.String()),
    deleted: Type.Boolean(),
    allowed_hosts: Type.Array(Type.String(), {
      description:
        "Hosts that `fetch` may reach: `api.example.com`, `*.example.com` (at least two names behind the star), with `:port`.",
    }),
  },
  { title: "PipelineTransformationConfig" },
);

/** A hundred events of fifty thousand characters; one may have more. */
const MAX_EVENTS_CHARS = 5_000_000;
/** What they may have as JSON is measured beside those that are stored. */
const MAX_SETTINGS_CHARS = 2_000_000;
const ORDER = { minimum: -MAX_ORDER - 1, maximum: MAX_ORDER };

const writableFields = {
  enabled: Type.Optional(Type.Boolean()),
  order: Type.Optional(Type.Integer(ORDER)),
  config: Type.Optional(MapOf(Type.Unknown(), maxChars(MAX_SETTINGS_CHARS))),
  name: Type.Optional(Nullable(Type.String({ maxLength: 400 }))),
  description: Type.Optional(Nullable(Type.String({ maxLength: 1000 }))),
  deleted: Type.Optional(Type.Boolean()),
  allowed_hosts: Type.Optional(
    Type.Array(Type.String({ maxLength: 260 }), {
      description:
        "Hosts that `fetch` may reach: `api.example.com`, `*.example.com` (at least two names behind the star), with `:port`.",
    }),
  ),
};

export const CreatePluginConfigBody = Type.Object({
  plugin: Type.Integer({ minimum: 1, maximum: 2_147_483_647 }),
  ...writableFields,
});

export const PutPluginConfigBody = Type.Object({
  ...CreatePluginConfigBody.properties,
  order: Type.Integer(ORDER),
});

export const PatchPluginConfigBody = Type.Object({
  plugin: Type.Optional(
    Type.Integer({ description: "The config's own plugin: it cannot have another." }),
  ),
  ...writableFields,
});

export const RearrangeBody = Type.Object({
  orders: MapOf(Type.Integer(), {
    description: "Place of each config, by its id.",
  }),
});

/** Attached files on their way from a form to their route: no JSON can hold them. */
const attachmentsOfBody = new WeakMap<object, AttachmentChange>();

/** The body that a form of a config stands for (posthog-api 6.7). */
export async function bodyOfConfigForm(
  fields: ReadonlyMap<string, Buffer>,
  files: () => ReadonlyMap<string, FormFile>,
  reader: JsonReader,
): Promise<JsonObject> {
  // Other fields are attachments, which are no texts, or nothing that is known.
  const known = [...fields].filter(([name]) =>
    Object.hasOwn(CreatePluginConfigBody.properties, name),
  );
  const body = await bodyOfForm(new Map(known), CreatePluginConfigBody, reader);
  const put = [...files()].flatMap(([name, { fileName, contentType, bytes }]) => {
    const key = keyIn(name, /^add_attachment\[([^\]]+)\]$/);
    if (key === undefined) return [];
    const [cleanName, cleanType] = [cleanText(fileName), cleanText(contentType)];
    return [{ key, fileName: cleanName, contentType: cleanType, contents: bytes }];
  });
  // What comes in the place of another takes it away by itself.
  const replaced = new Set(put.map(({ key }) => key));
  const removeKeys = [...fields.keys()]
    .flatMap((name) => keyIn(name, /^remove_attachment\[([^\]]+)\]$/) ?? [])
    .filter((key) => !replaced.has(key));
  attachmentsOfBody.set(body, { put, removeKeys });
  return body;
}

function keyIn(name: string, pattern: RegExp): string | undefined {
  const key = pattern.exec(name)?.[1];
  return key === undefined ? undefined : cleanText(key);
}

/** The attachments that came with a body. */
export function attachmentChangeOf(body: object): AttachmentChange {
  return attachmentsOfBody.get(body) ?? { put: [], removeKeys: [] };
}

/** What a caller says of a config. */
export function configChangeOf(body: Static<typeof PatchPluginConfigBody>): ConfigChange {
  return presentFields({
    enabled: body.enabled,
    order: body.order,
    config: body.config as JsonObject | undefined,
    name: body.name,
    description: body.description,
    deleted: body.deleted,
    allowedHosts: body.allowed_hosts && readHosts(body.allowed_hosts),
  });
}

const MAX_HOSTS = 100;

function readHosts(hosts: readonly string[]): readonly string[] {
  if (hosts.length > MAX_HOSTS) {
    throw new Refusal("invalid_input", `Ensure this list has no more than ${MAX_HOSTS} hosts.`, {
      attr: "allowed_hosts",
    });
  }
  for (const [index, host] of hosts.entries()) {
    const fault = grantFault(host);
    if (fault === undefined) continue;
    throw new Refusal("invalid_input", fault, { attr: `allowed_hosts__${index}` });
  }
  return [...new Set(hosts.map((host) => host.toLowerCase()))];
}

/** Places by config id; ids that cannot be some are refused. */
export function ordersOf(body: Static<typeof RearrangeBody>): ReadonlyMap<number, number> {
  return new Map(
    Object.entries(body.orders).map(([id, order]) => {
      if (!/^\d{1,9}$/.test(id) || Math.abs(order) > MAX_ORDER) {
        throw new Refusal("invalid_input", "A valid integer is required.", {
          attr: `orders__${id}`,
        });
      }
      return [Number(id), order];
    }),
  );
}

/**
 * The wire form of a config.
 * @param deliveryRate share of events that came through in the last 24 hours; `null` for none
 */
export function wirePluginConfig(
  view: ConfigView,
  options: { readonly deliveryRate: number | null; readonly organizationName?: string },
): Static<typeof PluginConfig> {
  const { config, transformation, attachments } = view;
  const { organizationName } = options;
  const files = attachments.map(({ id, key, sizeBytes, fileName, contentType }) => [
    key,
    isSecretKey(view, key)
      ? { uid: -1, saved: true, size: -1, name: SECRET_MASK, type: MASKED_TYPE }
      : { uid: id, saved: true, size: sizeBytes, name: fileName, type: contentType },
  ]);
  const shown = maskSecrets(config, configFieldsOf(transformation.configSchema));
  return {
    id: config.id,
    plugin: config.transformationId,
    enabled: config.enabled,
    order: config.order,
    config: Object.fromEntries([...Object.entries(shown), ...files]),
    error: config.problem && {
      message: config.problem.message,
      time: wireInstant(config.problem.at),
    },
    team_id: config.projectId,
    plugin_info:
      organizationName === undefined ? null : wirePlugin({ transformation, organizationName }),
    delivery_rate_24h: options.deliveryRate,
    created_at: wireInstant(config.createdAt),
    updated_at: wireInstant(config.updatedAt),
    name: config.name ?? transformation.name,
    description: config.description ?? transformation.description,
    deleted: config.deleted,
    allowed_hosts: [...config.allowedHosts],
  };
}

/** A line of a config's log (posthog-api 6.7). */
export const PluginLog = Type.Object(
  {
    id: Type.String(),
    team_id: Type.Integer(),
    plugin_id: Type.Integer(),
    plugin_config_id: Type.Integer(),
    timestamp: Type.String({ format: "date-time" }),
    source: Type.Enum([...LOG_SOURCES]),
    type: Type.Enum([...LOG_TYPES]),
    message: Type.String(),
    instance_id: Type.String(),
  },
  { title: "PipelineTransformationLog" },
);

export function wireLog(entry: TransformationLogEntry): Static<typeof PluginLog> {
  return {
    id: entry.id,
    team_id: entry.projectId,
    plugin_id: entry.transformationId,
    plugin_config_id: entry.configId,
    timestamp: wireInstant(entry.at),
    source: entry.source,
    type: entry.type,
    message: entry.message,
    instance_id: entry.instanceId,
  };
}

const counts = {
  in: Type.Integer(),
  out: Type.Integer(),
  dropped: Type.Integer(),
  failed: Type.Integer({ description: "Of those that went out, how many went out unchanged." }),
  p50_ms: Nullable(Type.Number()),
  p95_ms: Nullable(Type.Number()),
};

/** What a config did, by hour and in all: in = out + dropped. */
export const PluginMetrics = Type.Object(
  {
    results: Type.Array(
      Type.Object({
        hour: Type.String({ format: "date-time" }),
        ...counts,
        own: MapOf(Type.Number(), {
          description: "What the transformation counted itself.",
        }),
      }),
    ),
    totals: Type.Object(counts),
  },
  { title: "PipelineTransformationMetrics" },
);

export function wireMetrics(
  hours: readonly HourTally[],
  total: Pick<HourTally, "counts" | "durations">,
): Static<typeof PluginMetrics> {
  return {
    results: hours.map((tally) => ({
      hour: wireInstant(tally.hour),
      ...wireCounts(tally),
      own: Object.fromEntries(
        Object.entries(tally.ownMetrics).map(([name, { value }]) => [name, value]),
      ),
    })),
    totals: wireCounts(total),
  };
}

function wireCounts({ counts: sums, durations }: Pick<HourTally, "counts" | "durations">) {
  return {
    in: sums.eventsIn,
    out: sums.eventsOut,
    dropped: sums.dropped,
    failed: sums.failed,
    p50_ms: durationAt(durations, 0.5),
    p95_ms: durationAt(durations, 0.95),
  };
}

export const JobBody = Type.Object({
  job: Type.Object(
    {
      type: Type.String({ minLength: 1, description: "Name of the job." }),
      payload: Type.Optional(
        MapOf(Type.Unknown(), {
          description:
            "Up to 1,000,000 characters. The activity shows it, shortened; fields that `publicJobs` declares `secret` are masked there.",
        }),
      ),
    },
    maxChars(MAX_SETTINGS_CHARS),
  ),
});

const DEFAULT_TRIAL_EVENTS = 10;

export const TrialBody = Type.Object({
  plugin: Type.Optional(Type.Integer({ minimum: 1, maximum: 2_147_483_647 })),
  source: Type.Optional(
    Type.Union([Type.String(), MapOf(Nullable(Type.String()))], {
      description: "Unsaved files by name, null for one that is taken away; or index.ts alone.",
      ...maxChars(MAX_BODY_BYTES),
    }),
  ),
  config: Type.Optional(
    MapOf(Type.Unknown(), {
      description:
        "Settings to try in place of the stored ones. Stored secrets are given to the saved source only: others see their mask.",
      ...maxChars(MAX_SETTINGS_CHARS),
    }),
  ),
  allowed_hosts: Type.Optional(
    Type.Array(Type.String({ maxLength: 260 }), {
      description:
        "Hosts that `fetch` may reach in this trial, in earnest; none unless given, those of the config neither.",
    }),
  ),
  events: Type.Optional(
    Type.Array(AnyObject, {
      description:
        "Events to try it on, as they are captured (`distinct_id` is `trial` unless given, `ip` the address they come from); recent ones of the project unless given.",
      ...maxChars(MAX_EVENTS_CHARS),
    }),
  ),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_TRIAL_EVENTS,
      description: "Number of recent events.",
    }),
  ),
  event: Type.Optional(Type.String({ description: "Name of the recent events." })),
});

export function trialRequestOf(body: Static<typeof TrialBody>): TrialRequest {
  const { source } = body;
  return {
    recent: body.limit ?? DEFAULT_TRIAL_EVENTS,
    ...presentFields({
      transformationId: body.plugin,
      source: source === undefined ? undefined : filesOf(source),
      config: body.config as JsonObject | undefined,
      allowedHosts: body.allowed_hosts && readHosts(body.allowed_hosts),
      events: body.events,
      eventName: body.event,
    }),
  };
}

/** What became of the events of a trial: in = out + dropped. */
export const TrialAnswer = Type.Object(
  {
    start_error: Nullable(Type.String({ description: "Why the source does not start." })),
    results: Type.Array(
      Type.Object({
        outcome: Type.Enum(["unchanged", "changed", "dropped", "failed"]),
        before: AnyObject,
        after: Nullable(AnyObject),
        changes: Type.Array(
          Type.Object({
            path: Type.String({ description: "Dotted." }),
            action: Type.Enum(["created", "changed", "deleted"]),
            before: Type.Unknown(),
            after: Type.Unknown(),
          }),
        ),
        error: Nullable(Type.String()),
        cpu_ms: Type.Number(),
      }),
    ),
    counts: Type.Object({
      in: Type.Integer(),
      out: Type.Integer(),
      dropped: Type.Integer(),
      failed: Type.Integer(),
    }),
    logs: Type.Array(
      Type.Object({
        timestamp: Type.String({ format: "date-time" }),
        source: Type.Enum(["SYSTEM", "CONSOLE"]),
        type: Type.Enum([...LOG_TYPES]),
        message: Type.String(),
      }),
    ),
    captured: Type.Array(AnyObject, { description: "Events that it captured itself." }),
    jobs: Type.Array(AnyObject, { description: "Jobs that it asked for." }),
    methods: Type.Array(Type.String()),
    start_ms: Type.Number(),
    run_ms: Type.Number(),
  },
  { title: "PipelineTransformationTrial" },
);

export function wireTrial(trial: TrialOutcome): Static<typeof TrialAnswer> {
  const count = (outcome: TrialOutcome["results"][number]["outcome"]) =>
    trial.results.filter((result) => result.outcome === outcome).length;
  const dropped = count("dropped");
  return {
    start_error: trial.startError,
    results: trial.results.map(({ outcome, before, after, changes, error, cpuMs }) => ({
      outcome,
      before: { ...before },
      after: after && { ...after },
      changes: changes.map((change) => ({
        path: change.path,
        action:
          change.before === undefined
            ? "created"
            : change.after === undefined
              ? "deleted"
              : "changed",
        before: change.before ?? null,
        after: change.after ?? null,
      })),
      error,
      cpu_ms: cpuMs,
    })),
    counts: {
      in: trial.results.length,
      out: trial.results.length - dropped,
      dropped,
      failed: count("failed"),
    },
    logs: trial.logs.map(({ at, source, level, message }) => ({
      timestamp: wireInstant(at),
      source: source === "console" ? "CONSOLE" : "SYSTEM",
      type: level.toUpperCase() as (typeof LOG_TYPES)[number],
      message,
    })),
    captured: trial.captured.map((one) => ({ ...one })),
    jobs: trial.jobs.map((one) => ({ ...one })),
    methods: [...trial.methods],
    start_ms: trial.startMs,
    run_ms: trial.runMs,
  };
}
