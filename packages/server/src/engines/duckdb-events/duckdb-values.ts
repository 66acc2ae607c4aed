import { DuckDBTimestampValue, DuckDBUUIDValue } from "@duckdb/node-api";

/** An instant as DuckDB stores it, in microseconds. */
export function timestampOf(date: Date): DuckDBTimestampValue {
  return new DuckDBTimestampValue(BigInt(date.getTime()) * 1000n);
}

/** A UUID, written with dashes, as DuckDB stores it. */
export function uuidValueOf(uuid: string): DuckDBUUIDValue {
  return DuckDBUUIDValue.fromUint128(BigInt(`0x${uuid.replaceAll("-", "")}`));
}
