import { DuckDBTimestampValue, DuckDBUUIDValue } from "@duckdb/node-api";

export function timestampOf(date: Date): DuckDBTimestampValue {
  return new DuckDBTimestampValue(BigInt(date.getTime()) * 1000n);
}

export function uuidValueOf(uuid: string): DuckDBUUIDValue {
  return DuckDBUUIDValue.fromUint128(BigInt(`0x${uuid.replaceAll("-", "")}`));
}
