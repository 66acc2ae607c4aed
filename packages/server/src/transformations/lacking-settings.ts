import { type ConfigField, validateConfig } from "@hedgerow/core/transformations/config-schema";
import type { ConfigView } from "./transformation-config-store.ts";

/** A config that lacks settings which the current version requires, or has some that it does not take. */
export interface MissingSettings {
  readonly configId: number;
  readonly projectId: number;
  /** Of both, in the order of their declaration. */
  readonly keys: readonly string[];
}

/** A setting that a version has and the one before did not have, or did not require. */
export interface NewSetting {
  readonly key: string;
  readonly name: string;
  readonly isRequired: boolean;
}

export function settingsBeyond(
  before: readonly ConfigField[],
  after: readonly ConfigField[],
): readonly NewSetting[] {
  const known = new Map(before.map((field) => [field.key, field]));
  return after
    .filter(({ key, required }) => !known.has(key) || (required && !known.get(key)?.required))
    .map(({ key, name, required }) => ({ key, name, isRequired: required }));
}

export function missingSettings(
  fields: readonly ConfigField[],
  configs: readonly ConfigView[],
): readonly MissingSettings[] {
  return configs.flatMap(({ config, attachments }) => {
    const given = new Set(attachments.map(({ key }) => key));
    const keys = validateConfig(config.config, fields, given).map(({ key }) => key);
    return keys.length === 0 ? [] : [{ configId: config.id, projectId: config.projectId, keys }];
  });
}
