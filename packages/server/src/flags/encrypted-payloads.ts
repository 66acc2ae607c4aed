import { createCipheriv, createDecipheriv } from "node:crypto";
import { encodeJson, parseExactJson } from "@hedgerow/core/exact-json";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { Refusal } from "../http/errors.ts";
import type { FlagFields, FlagRecord } from "./flag-store.ts";

/** Encrypts payloads of one project's flags at rest. */
export interface PayloadSeal {
  seal(projectId: number, payload: Json): string;
  /** Throws a refusal (`unavailable`) for what was sealed with another key or for another project. */
  open(projectId: number, sealed: string): Json;
}

/** What stands for an encrypted payload wherever it is not asked for by name; sent back, it means "as it was". */
export const REDACTED_PAYLOAD = '"********* (encrypted)"';

/** A flag as its authors see it: encrypted payloads redacted among its filters. */
export interface ShownFlag extends FlagRecord {
  readonly hasEncryptedPayloads: boolean;
}

/** What a caller may change of a flag; what is absent stays as it is. */
export type FlagChange = Partial<Omit<FlagFields, "sealedPayloads">> & {
  readonly hasEncryptedPayloads?: boolean;
};

const ALGORITHM = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const PREFIX = "v1.";

/**
 * AES-256-GCM: an own random nonce for every payload; the project is authenticated with it.
 * @param key 32 bytes
 */
export function createPayloadSeal(key: Buffer, randomBytes: (size: number) => Buffer): PayloadSeal {
  const belonging = (projectId: number) => Buffer.from(`flag payload of project ${projectId}`);
  return {
    seal(projectId, payload) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(ALGORITHM, key, nonce).setAAD(belonging(projectId));
      const text = Buffer.concat([cipher.update(encodeJson(payload), "utf8"), cipher.final()]);
      const whole = Buffer.concat([nonce, cipher.getAuthTag(), text]);
      return `${PREFIX}${whole.toString("base64")}`;
    },

    open(projectId, sealed) {
      const whole = Buffer.from(sealed.slice(PREFIX.length), "base64");
      try {
        const decipher = createDecipheriv(ALGORITHM, key, whole.subarray(0, NONCE_BYTES), {
          authTagLength: TAG_BYTES,
        })
          .setAAD(belonging(projectId))
          .setAuthTag(whole.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
        const text = decipher.update(whole.subarray(NONCE_BYTES + TAG_BYTES));
        return parseExactJson(Buffer.concat([text, decipher.final()]).toString("utf8"));
      } catch {
        throw new Refusal(
          "unavailable",
          "The payload cannot be decrypted: it was encrypted with another key than the one in the data folder.",
        );
      }
    },
  };
}

/** A stored flag as it is shown: nothing that was encrypted can be read off it. */
export function shownFlag(flag: FlagRecord): ShownFlag {
  const { sealedPayloads } = flag;
  if (sealedPayloads === null) return { ...flag, hasEncryptedPayloads: false };
  const payloads = Object.fromEntries(
    Object.keys(sealedPayloads).map((value) => [value, REDACTED_PAYLOAD]),
  );
  return { ...flag, filters: { ...flag.filters, payloads }, hasEncryptedPayloads: true };
}

/**
 * Filters as they are stored: with the payloads in them, or without them and each one sealed. What is
 * sent as {@link REDACTED_PAYLOAD} stays what it was in `earlier`.
 */
export function sealPayloads(
  filters: JsonObject,
  {
    projectId,
    isEncrypted,
    earlier,
    seal,
  }: {
    projectId: number;
    isEncrypted: boolean;
    earlier: FlagRecord["sealedPayloads"];
    seal: PayloadSeal;
  },
): Pick<FlagFields, "filters" | "sealedPayloads"> {
  if (!isEncrypted && earlier === null) return { filters, sealedPayloads: null };
  const { payloads: sent = {}, ...others } = filters;
  const payloads = Object.entries(isJsonObject(sent) ? sent : {});
  const before = (value: string, payload: Json): string | undefined =>
    payload === REDACTED_PAYLOAD && earlier && Object.hasOwn(earlier, value)
      ? earlier[value]
      : undefined;
  if (isEncrypted) {
    const sealed = payloads.map(([value, payload]) => [
      value,
      before(value, payload) ?? seal.seal(projectId, payload),
    ]);
    return { filters: others, sealedPayloads: Object.fromEntries(sealed) };
  }
  const opened = payloads.map(([value, payload]) => {
    const sealed = before(value, payload);
    return [value, sealed === undefined ? payload : seal.open(projectId, sealed)];
  });
  return { filters: { ...others, payloads: Object.fromEntries(opened) }, sealedPayloads: null };
}

/** The payload of one value of a flag, decrypted where it has to be; `null` where there is none. */
export function payloadOf(
  projectId: number,
  { filters, sealedPayloads }: Pick<FlagRecord, "filters" | "sealedPayloads">,
  { value, seal }: { value: string; seal: Pick<PayloadSeal, "open"> },
): Json {
  if (sealedPayloads) {
    const sealed = Object.hasOwn(sealedPayloads, value) ? sealedPayloads[value] : undefined;
    return sealed === undefined ? null : seal.open(projectId, sealed);
  }
  const payloads = ownValue(filters, "payloads");
  return (isJsonObject(payloads) && ownValue(payloads, value)) || null;
}
