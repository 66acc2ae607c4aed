import { setTimeout as delay } from "node:timers/promises";

/** Resolves when some work has ended or so much time has passed; rejects as the work does until then. */
export async function atMost(ms: number, work: Promise<unknown>): Promise<void> {
  const timeUp = new AbortController();
  try {
    await Promise.race([work, delay(ms, undefined, { signal: timeUp.signal })]);
  } finally {
    timeUp.abort();
  }
}
