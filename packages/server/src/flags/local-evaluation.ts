import { encodeJson } from "@hedgerow/core/exact-json";
import { entityTagOf } from "../http/entity-tag.ts";
import type { FlagSnapshot } from "./compiled-flags.ts";
import type { VersionedDefinitions } from "./flag-store.ts";

/** A feed of definitions, ready to be sent. */
export interface LocalDefinitions {
  /** Strong entity tag of the body, in quotes. */
  readonly etag: string;
  /** JSON text in UTF-8. */
  readonly body: Buffer;
}

/** Which feed is wanted. */
export interface FeedOptions {
  readonly sendCohorts: boolean;
  /** Leaves to the server what SDKs before 2025 get wrong without noticing. */
  readonly forOlderSdks: boolean;
}

/**
 * The definitions that SDKs evaluate locally (posthog-api 4.6), built once per snapshot of a
 * project's flags and variant and kept as long as the snapshot is. Equal definitions have equal
 * tags, whichever process built them.
 */
export type LocalDefinitionsOf = (
  projectId: number,
  snapshot: FlagSnapshot,
  options: FeedOptions,
) => LocalDefinitions;

/** @param wire the wire form of a project's definitions */
export function createLocalDefinitions(
  wire: (projectId: number, definitions: VersionedDefinitions, options: FeedOptions) => object,
): LocalDefinitionsOf {
  const built = new WeakMap<FlagSnapshot, Map<string, LocalDefinitions>>();
  return (projectId, snapshot, options) => {
    const variant = `${options.sendCohorts} ${options.forOlderSdks}`;
    const variants = built.get(snapshot) ?? new Map<string, LocalDefinitions>();
    built.set(snapshot, variants);
    const known = variants.get(variant);
    if (known) return known;
    const text = encodeJson(wire(projectId, snapshot.definitions, options));
    const body = Buffer.from(text);
    const definitions = { etag: entityTagOf(body), body };
    variants.set(variant, definitions);
    return definitions;
  };
}
