import { type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { type ConfigField, configFieldsOf } from "@hedgerow/core/transformations/config-schema";
import type { Attachment } from "@hedgerow/core/transformations/transformation";
import { Refusal } from "../http/errors.ts";
import type {
  AttachmentChange,
  ConfigView,
  TransformationConfigFields,
} from "./transformation-config-store.ts";

/** What is shown in place of a secret, and taken to mean the stored one (posthog-api 6.7). */
export const SECRET_MASK = "**************** POSTHOG SECRET FIELD ****************";
/** Settings of one config as JSON, or the payload of a job. */
const MAX_CONFIG_CHARS = 1_000_000;

/** Settings and which of them are secret. */
export type Settings = Pick<TransformationConfigFields, "config" | "secretKeys">;

/**
 * Settings as they are kept: without what stands for attachments, and with the stored secret where
 * one was left out, is `null` or came back masked. A secret stays one until another value takes its place,
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
    if (kept.get(key) === SECRET_MASK) kept.delete(key);
    if (secret === undefined) continue;
    kept.set(key, secret);
    secretKeys.push(key);
  }
  return {
    config: Object.fromEntries(kept),
    secretKeys: secretKeys.filter((key) => kept.has(key)),
  };
}

/**
 * Which keys are secret when attachments change besides: a file that is declared so when it comes,
 * or while it is there, stays one until another comes or it is taken away.
 * @param settings as they are after the change, whose secrets are settled
 */
export function secretsWithFiles(
  settings: Settings,
  configSchema: Json,
  before: ConfigView | undefined,
  { put, removeKeys }: AttachmentChange,
): readonly string[] {
  const declared = secretKeysOf(configFieldsOf(configSchema));
  const known = new Set([...declared, ...(before?.config.secretKeys ?? [])]);
  const gone = new Set([...removeKeys, ...put.map(({ key }) => key)]);
  const staying = (before?.attachments ?? []).filter(({ key }) => !gone.has(key) && known.has(key));
  const coming = put.filter(({ key }) => declared.has(key));
  const ofSettings = settings.secretKeys.filter((key) => Object.hasOwn(settings.config, key));
  return [...new Set([...ofSettings, ...[...staying, ...coming].map(({ key }) => key)])];
}

/** Whether what stands under a key is secret: because it was given so, or is declared so now. */
export function isSecretKey({ config, transformation }: ConfigView, key: string): boolean {
  return (
    config.secretKeys.includes(key) ||
    secretKeysOf(configFieldsOf(transformation.configSchema)).has(key)
  );
}

/** A secret file, for code that may be anybody's. */
export function maskedFile({ key }: Attachment): Attachment {
  const contents = new TextEncoder().encode(SECRET_MASK);
  return { key, fileName: SECRET_MASK, contentType: MASKED_TYPE, contents };
}

/** The type that a secret file is told with. */
export const MASKED_TYPE = "application/octet-stream";

/** Throws a {@link Refusal} for what is longer, as JSON, than settings may be. */
export function refuseLong(subject: string, value: JsonObject, attr: string): void {
  if (textOf(value).length <= MAX_CONFIG_CHARS) return;
  const detail = `${subject} no more than ${MAX_CONFIG_CHARS} characters.`;
  throw new Refusal("invalid_input", detail, { attr });
}

export function textOf(value: Json): string {
  return JSON.stringify(value, (_, inner) => (typeof inner === "bigint" ? String(inner) : inner));
}

/**
 * Whether a value was sent for a secret, rather than nothing, `null` or the mask: an empty text takes
 * one away (posthog-api 6.7).
 */
export function isNew(value: Json | undefined): value is NonNullable<Json> {
  return value !== undefined && value !== null && value !== SECRET_MASK;
}

export function secretKeysOf(fields: readonly ConfigField[]): ReadonlySet<string> {
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

export function masked(value: Json): Json {
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
