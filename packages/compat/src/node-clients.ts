import { PostHog as CurrentPostHog } from "posthog-node";
import { PostHog as PostHog3 } from "posthog-node-3";
import { PostHog as PostHog4 } from "posthog-node-4";
import { PROJECT_KEY } from "./server-under-test.ts";

export type FlagValue = string | boolean;

/** For whom and with what a flag is asked. */
export interface AskOptions {
  readonly groups?: Record<string, string>;
  /** Declared as text by the SDKs, passed on as any JSON by all of them. */
  readonly personProperties?: Record<string, string>;
  readonly groupProperties?: Record<string, Record<string, string>>;
  readonly onlyEvaluateLocally?: boolean;
  readonly sendFeatureFlagEvents?: boolean;
  readonly disableGeoip?: boolean;
}

export interface CaptureMessage {
  readonly distinctId: string;
  readonly event: string;
  readonly properties?: Record<string, unknown>;
  readonly groups?: Record<string, string>;
  readonly sendFeatureFlags?: boolean;
  readonly timestamp?: Date;
  readonly uuid?: string;
}

/** What all eras of posthog-node have in common. */
export interface NodeClient {
  capture(message: CaptureMessage): void;
  identify(message: { distinctId: string; properties?: Record<string, unknown> }): void;
  alias(message: { distinctId: string; alias: string }): void;
  groupIdentify(message: {
    groupType: string;
    groupKey: string;
    properties?: Record<string, unknown>;
  }): void;
  getFeatureFlag(
    key: string,
    distinctId: string,
    options?: AskOptions,
  ): Promise<FlagValue | undefined>;
  isFeatureEnabled(
    key: string,
    distinctId: string,
    options?: AskOptions,
  ): Promise<boolean | undefined>;
  getFeatureFlagPayload(
    key: string,
    distinctId: string,
    matchValue?: FlagValue,
    options?: AskOptions,
  ): Promise<unknown>;
  getAllFlags(distinctId: string, options?: AskOptions): Promise<Record<string, FlagValue>>;
  getAllFlagsAndPayloads(
    distinctId: string,
    options?: AskOptions,
  ): Promise<{
    featureFlags?: Record<string, FlagValue> | undefined;
    featureFlagPayloads?: Record<string, unknown> | undefined;
  }>;
  reloadFeatureFlags(): Promise<void>;
  getLibraryVersion(): string;
  /** Calls back on every failed request that the SDK does not throw. */
  onError(callback: (error: unknown) => void): void;
  /** Sends what is queued and waits for the answer. */
  sendQueued(): Promise<unknown>;
  /** Sends what is queued, then stops polling. */
  close(): Promise<void>;
}

export interface ClientOptions {
  readonly host: string;
  readonly projectKey?: string;
  /** Turns local evaluation on. */
  readonly personalApiKey?: string;
  readonly featureFlagsPollingInterval?: number;
  readonly fetch?: typeof globalThis.fetch;
}

export interface NodeSdk {
  readonly name: string;
  /** Newer SDKs know dependencies, per-condition groups, version operators and the like locally. */
  readonly era: "newer SDKs" | "older SDKs";
  /** posthog-node 3 hashes ids as if their characters were bytes: beyond ASCII it is on its own. */
  readonly hashesOnlyAscii?: true;
  open(options: ClientOptions): NodeClient;
}

/** The current SDK, with everything only it can do. */
export function openCurrentClient(
  options: ClientOptions & { readonly evaluationContexts?: string[] },
): CurrentPostHog {
  const { host, projectKey = PROJECT_KEY, fetch, ...rest } = options;
  return new CurrentPostHog(projectKey, {
    host,
    ...patience,
    ...(fetch && { fetch: fetch as never }),
    ...rest,
  });
}

// By themselves clients try a refused request again for ten seconds, and give up an answer that takes
// three, as answers may where the machine runs much else; batches go out when a test says so.
const patience = {
  fetchRetryCount: 0,
  requestTimeout: 60_000,
  featureFlagsRequestTimeoutMs: 60_000,
  flushInterval: 60_000,
  flushAt: 50,
};

/** Older SDKs queue an event a moment after `capture` returns, and `flush` does not wait for it. */
function afterQueueing(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** The official server SDKs that are driven against the product. */
export const NODE_SDKS: readonly NodeSdk[] = [
  {
    name: "posthog-node 5",
    era: "newer SDKs",
    open(options) {
      const client = openCurrentClient(options);
      return Object.assign(client, {
        onError: (callback: (error: unknown) => void) => void client.on("error", callback),
        sendQueued: () => client.flush(),
        close: () => client.shutdown(),
      });
    },
  },
  {
    name: "posthog-node 4",
    era: "older SDKs",
    open({ projectKey = PROJECT_KEY, fetch, ...options }) {
      const client = new PostHog4(projectKey, {
        ...patience,
        ...(fetch && { fetch: fetch as never }),
        ...options,
      });
      return Object.assign(client, {
        onError: (callback: (error: unknown) => void) => void client.on("error", callback),
        sendQueued: () => afterQueueing().then(() => client.flush()),
        close: () => client.shutdown(),
      });
    },
  },
  {
    name: "posthog-node 3",
    era: "older SDKs",
    hashesOnlyAscii: true,
    open({ projectKey = PROJECT_KEY, fetch, ...options }) {
      const client = new PostHog3(projectKey, {
        ...patience,
        ...(fetch && { fetch: fetch as never }),
        ...options,
      });
      return Object.assign(client, {
        onError: (callback: (error: unknown) => void) => void client.on("error", callback),
        sendQueued: () => afterQueueing().then(() => client.flushAsync()),
        close: () => client.shutdownAsync(),
      });
    },
  },
];
