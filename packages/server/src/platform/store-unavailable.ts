/**
 * A store that cannot do its work for now: its disk is full or read-only, or its server is away. What
 * was asked for is not done; the same request may succeed once the cause is mended.
 */
export class StoreUnavailable extends Error {
  override readonly name = "StoreUnavailable";
}
