import { type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import {
  type ConfigFault,
  configFieldsOf,
  validateConfig,
} from "@hedgerow/core/transformations/config-schema";
import type { Transformation } from "@hedgerow/core/transformations/transformation";
import { Refusal } from "../http/errors.ts";
import { SECRET_MASK, type Settings, secretKeysOf } from "./secret-settings.ts";
import type { AttachmentChange } from "./transformation-config-store.ts";

const MAX_ATTACHMENT_BYTES = 16 * 1024 * 1024;

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

export function checkAttachments(
  { put }: AttachmentChange,
  { configSchema }: Transformation,
): void {
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
