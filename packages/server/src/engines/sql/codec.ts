import { encodeJson as encodeExactly, parseExactJson } from "@hedgerow/core/exact-json";
import type { JsonObject } from "@hedgerow/core/json";

/**
 * The one representation of booleans, instants and JSON in every SQL engine: integers 0 and 1,
 * milliseconds since the epoch, and JSON text (text keeps key order and large numbers as sent).
 */
export const encodeBoolean = (value: boolean): number => (value ? 1 : 0);
export const decodeBoolean = (value: number): boolean => value !== 0;

export const encodeInstant = (value: Date): number => value.getTime();
export const decodeInstant = (value: number): Date => new Date(value);

export const encodeJson = (value: unknown): string => encodeExactly(value);
export const decodeJson = <T = JsonObject>(text: string): T => parseExactJson(text) as T;
