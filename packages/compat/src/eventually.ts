/** How often a condition is looked at while waiting for it. */
const POLL_INTERVAL_MS = 25;

/**
 * Waits for a condition: calls `probe` until it gives a value other than `undefined` or `false`
 * without throwing, and gives that value.
 * @param what completes the sentence "gave up waiting for …"
 * @throws Error with the last failure as its cause when the time is over
 */
export async function eventually<Value>(
  what: string,
  probe: () => Value | undefined | false | Promise<Value | undefined | false>,
  timeoutMs = 60_000,
): Promise<Value> {
  const deadline = performance.now() + timeoutMs;
  let lastFailure: unknown;
  for (;;) {
    try {
      const value = await probe();
      if (value !== undefined && value !== false) return value;
      lastFailure = undefined;
    } catch (error) {
      lastFailure = error;
    }
    if (performance.now() >= deadline) {
      const reason = lastFailure instanceof Error ? `: ${lastFailure.message}` : "";
      throw new Error(`gave up waiting for ${what} after ${timeoutMs} ms${reason}`, {
        cause: lastFailure,
      });
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL_MS));
  }
}
