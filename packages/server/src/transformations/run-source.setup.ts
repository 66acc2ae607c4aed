import type { Json, JsonObject } from "@hedgerow/core/json";
import { configFieldsOf, withDefaults } from "@hedgerow/core/transformations/config-schema";
import { pluginEventOf } from "@hedgerow/core/transformations/plugin-event";
import { v7 } from "uuid";
import { openGeoIp } from "../engines/mmdb-geoip/mmdb-geoip.ts";
import { QuickJsSandbox } from "../engines/quickjs-sandbox/quickjs-sandbox.ts";
import { readCatalogue } from "./catalogue.ts";
import { DEFAULT_LIMITS, type SandboxEvent, type SourceFiles } from "./sandbox.ts";

/** An event as somebody sends it; what is not given is that of any page view. */
export interface Sent {
  readonly event?: string;
  readonly distinctId?: string;
  readonly timestamp?: string;
  readonly properties?: JsonObject;
}

function seen({ event = "$pageview", distinctId = "ann", timestamp, properties = {} }: Sent) {
  const at = new Date(timestamp ?? "2026-02-28T23:30:00Z");
  const times = { timestamp: at, clientTimestamp: null, receivedAt: at };
  const captured = { uuid: v7(), projectId: 1, event, distinctId, properties, ...times };
  return pluginEventOf(captured, "");
}

/** Runs sources by themselves, in the real sandbox and with the real places, but on no pipeline. */
export async function sourceRunner() {
  const sandbox = new QuickJsSandbox();
  const places = await openGeoIp({ path: null, reportFault: (error) => Promise.reject(error) });

  return {
    /** What a source makes of events: each event as it is then, `null` for a dropped one. */
    async run(
      files: SourceFiles,
      settings: JsonObject,
      sent: readonly Sent[],
    ): Promise<(SandboxEvent | null)[]> {
      const compiled = await sandbox.compile(files);
      if (compiled.kind === "refused") throw new Error(JSON.stringify(compiled.problems));
      const manifest: JsonObject = JSON.parse(files["plugin.json"] ?? "{}");
      const stored = new Map<string, Json>();
      const started = await sandbox.start({
        ...{ program: compiled.program, projectId: 1, configId: 1, name: "T", attachments: {} },
        config: withDefaults(settings, configFieldsOf((manifest.config ?? []) as Json)),
        allowedHosts: [],
        limits: DEFAULT_LIMITS,
        host: {
          log: () => {},
          readStored: async (key) => stored.get(key),
          writeStored: async (key, value) => void stored.set(key, value),
          deleteStored: async (key) => void stored.delete(key),
          capture: async () => {},
          enqueueJob: async () => {},
          locate: places.locate,
          countMetric: () => {},
        },
      });
      if (started.kind === "failed") throw new Error(started.reason);
      const events = sent.map(seen);
      const outcomes = await started.instance.transform(events);
      await started.instance.stop();
      return outcomes.map((outcome, index) => {
        if (outcome.kind === "failed") throw new Error(outcome.reason);
        return outcome.kind === "drop" ? null : (outcome.event ?? events[index] ?? null);
      });
    },
    close: () => sandbox.close(),
  };
}

/** Runs the transformations of the catalogue by name, and sources likewise. */
export async function catalogueRunner() {
  const [entries, runner] = await Promise.all([readCatalogue(), sourceRunner()]);
  return {
    entries,
    runSource: runner.run,
    run(name: string, settings: JsonObject, ...sent: readonly Sent[]) {
      const files = entries.find((entry) => entry.name === name)?.files ?? {};
      return runner.run(files, settings, sent);
    },
    close: runner.close,
  };
}
