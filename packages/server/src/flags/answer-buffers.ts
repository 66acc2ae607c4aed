/** Memory that a large answer is put together in, until it is sent. */
export interface AnswerBuffer {
  /** As large as was asked for, with whatever was in it before. */
  readonly bytes: Uint8Array;
  /** Gives the memory back. Nobody may read it from then on; if this is never called, it is garbage. */
  readonly release: () => void;
}

/** Lends memory for answers. */
export type AnswerBuffers = (size: number) => AnswerBuffer;

/** Most buffers kept for the next answers, and the largest. */
const MAX_KEPT = 4;
const MAX_KEPT_BYTES = 16 * 1024 * 1024;

/**
 * Memory for large answers, used again once an answer is sent: megabytes taken anew for each would
 * make the garbage collector run every few answers, which costs more than writing them.
 */
export function createAnswerBuffers(): AnswerBuffers {
  const kept: Uint8Array[] = [];

  return (size) => {
    const at = kept.findIndex((buffer) => buffer.length >= size);
    // A little more than asked for: the next answer of the same flags has another length.
    const [memory = Buffer.allocUnsafeSlow(size + (size >>> 3))] =
      at === -1 ? [] : kept.splice(at, 1);
    let isLent = true;
    return {
      bytes: memory.subarray(0, size),
      release() {
        if (!isLent) return;
        isLent = false;
        if (memory.length > MAX_KEPT_BYTES) return;
        kept.unshift(memory);
        if (kept.length > MAX_KEPT) kept.pop();
      },
    };
  };
}
