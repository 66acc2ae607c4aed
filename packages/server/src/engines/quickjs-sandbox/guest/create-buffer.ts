import { complain } from "./console.ts";
import { startTimer, stopTimer, type TimerHandle } from "./timers.ts";

interface BufferOptions {
  limit: number;
  timeoutSeconds: number;
  onFlush: (objects: unknown[], points: number) => unknown;
}

/** Collects objects until they count enough or long enough have waited, as plugin-contrib's does. */
export function createBuffer(given: Partial<BufferOptions>) {
  const options = { limit: 10, timeoutSeconds: 60, ...given };
  const buffer = {
    _buffer: [] as unknown[],
    _points: 0,
    _timeout: null as TimerHandle | null,
    _options: options,
    add(object: unknown, points = 1): void {
      if (buffer._points > 0 && buffer._points + points > options.limit) flushUnwatched();
      buffer._points += points;
      buffer._buffer.push(object);
      if (buffer._points > options.limit) flushUnwatched();
      else buffer._timeout ??= startTimer(flushUnwatched, options.timeoutSeconds * 1000, null, []);
    },
    async flush(): Promise<void> {
      if (buffer._timeout !== null) stopTimer(buffer._timeout);
      buffer._timeout = null;
      if (buffer._buffer.length === 0 && buffer._points === 0) return;
      const { _buffer: objects, _points: points } = buffer;
      buffer._buffer = [];
      buffer._points = 0;
      await options.onFlush?.(objects, points);
    },
  };
  function flushUnwatched(): void {
    buffer.flush().catch(complain);
  }
  return buffer;
}
