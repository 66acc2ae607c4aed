import type { JsonObject } from "@hedgerow/core/json";
import { configFieldsOf, withDefaults } from "@hedgerow/core/transformations/config-schema";
import type { PluginEvent } from "@hedgerow/core/transformations/plugin-event";
import type { TransformationFiles } from "@hedgerow/core/transformations/transformation";
import type { Project } from "../accounts/account-store.ts";
import type { Events } from "../events/events.ts";
import { Refusal } from "../http/errors.ts";
import type { GeoIp } from "../persons/geo-ip.ts";
import { readManifest } from "./plugin-manifest.ts";
import { type AccessLevel, refuseBelow } from "./plugins-access.ts";
import { refuseFaults } from "./refuse-settings.ts";
import { isSecretKey, maskedFile, maskStored, settled } from "./secret-settings.ts";
import { isSameSource, patched, type SourcePatch } from "./source-files.ts";
import type { TransformationConfigStore } from "./transformation-config-store.ts";
import {
  refuseOtherPlugin,
  type TransformationConfigs,
  unknownTransformation,
} from "./transformation-configs.ts";
import type { TransformationStore } from "./transformation-store.ts";
import { readTrialEvents, trialEventOf } from "./trial-events.ts";
import type { TrialOutcome, TryTransformation } from "./try-transformation.ts";

/** What somebody wants to try, beside or in place of what is saved. */
export interface TrialRequest {
  /** The transformation that is tried, where no config is. */
  readonly transformationId?: number;
  /** Files that differ from the saved ones. */
  readonly source?: SourcePatch;
  readonly config?: JsonObject;
  /** Hosts that this trial may ask: what is granted to the config is not granted to it. */
  readonly allowedHosts?: readonly string[];
  /** Events as somebody pasted them, in place of recent ones. */
  readonly events?: readonly unknown[];
  /** How many recent events to take. */
  readonly recent: number;
  /** Recent events of this name only. */
  readonly eventName?: string;
}

/**
 * Trying of sources and settings, saved or not, on events of a project: nothing of it has an effect,
 * but for what granted hosts make of being asked.
 * A source that is not saved takes what installing one does, and is given none of the stored secrets.
 */
export interface TransformationTrials {
  run(project: Project, configId: number | null, request: TrialRequest): Promise<TrialOutcome>;
}

export function createTransformationTrials({
  configs,
  configStore,
  transformations,
  tryTransformation,
  events,
  accessLevel,
  geoIp,
  siteUrl,
  newUuid,
  clock,
}: {
  configs: Pick<TransformationConfigs, "config">;
  configStore: Pick<TransformationConfigStore, "attachment">;
  transformations: Pick<TransformationStore, "transformation" | "version">;
  tryTransformation: TryTransformation;
  events: Pick<Events, "find">;
  accessLevel: AccessLevel;
  geoIp: GeoIp;
  siteUrl: string;
  newUuid: () => string;
  clock: () => Date;
}): TransformationTrials {
  const recentEvents = async (
    projectId: number,
    { recent, eventName }: TrialRequest,
  ): Promise<readonly PluginEvent[]> => {
    const { found } = await events.find({
      projectId,
      limit: recent,
      offset: 0,
      order: "newest-first",
      ...(eventName !== undefined && { event: eventName }),
    });
    return found
      .map(({ event }) => trialEventOf({ ...event, projectId, clientTimestamp: null }, siteUrl))
      .toReversed();
  };

  return {
    async run(project, configId, request) {
      refuseBelow("config", accessLevel);
      const view = configId === null ? undefined : await configs.config(project, configId);
      if (view) refuseOtherPlugin(view, request.transformationId);
      const transformationId = view?.transformation.id ?? request.transformationId;
      const transformation =
        transformationId === undefined
          ? undefined
          : await transformations.transformation(project.organizationId, transformationId);
      if (transformationId !== undefined && !transformation) {
        throw unknownTransformation(transformationId);
      }
      const saved: TransformationFiles =
        transformation && transformation.version > 0
          ? ((await transformations.version(transformation.id, transformation.version))?.files ??
            {})
          : {};
      const files = patched(saved, request.source ?? {});
      if (Object.keys(files).length === 0) {
        throw new Refusal("required", "This field is required.", { attr: "source" });
      }
      const isSaved = isSameSource(saved, files);
      if (!isSaved) refuseBelow("install", accessLevel);
      // The unsaved plugin.json declares the settings of the unsaved source.
      const configSchema =
        readManifest(files, "source")?.configSchema ?? transformation?.configSchema ?? [];
      const stored = view?.config;
      const { config: settings } = settled(
        request.config ?? stored?.config ?? {},
        configSchema,
        stored,
      );
      const config =
        view && !isSaved
          ? maskStored(
              settings,
              view.config,
              configFieldsOf(view.transformation.configSchema),
              request.config,
            )
          : settings;
      const keys = view?.attachments.map(({ key }) => key) ?? [];
      refuseFaults(config, configSchema, {
        attachments: new Set(keys),
        given: request.config,
        stored,
        isMasked: !isSaved,
      });
      const attachments = await Promise.all(
        keys.map((key) => configStore.attachment(project.id, configId ?? 0, key)),
      );
      return tryTransformation({
        projectId: project.id,
        configId: configId ?? 0,
        name: view?.config.name ?? transformation?.name ?? "test",
        files,
        config: withDefaults(config, configFieldsOf(configSchema)),
        attachments: attachments.flatMap((one) => {
          if (!one) return [];
          return [view && !isSaved && isSecretKey(view, one.key) ? maskedFile(one) : one];
        }),
        allowedHosts: request.allowedHosts ?? [],
        events: request.events
          ? await readTrialEvents(request.events, {
              project: { projectId: project.id, anonymizeIps: project.anonymizeIps },
              ...{ now: clock(), newUuid, siteUrl, geoIp },
            })
          : await recentEvents(project.id, request),
      });
    },
  };
}
