/** Takes note of work before it is done, in milliseconds that it takes about; throws where too little is left. */
export type Charge = (workMs: number) => void;

/**
 * How much work the host may do for a piece of code. It cannot be interrupted, so it is charged before
 * it is done: all that a piece of code asks for takes about as long as it may compute itself.
 */
export class HostAllowance {
  readonly #usedMs = new WeakMap<object, number>();

  chargeFor(work: { readonly limitMs: number }): Charge {
    return (workMs) => {
      const usedMs = (this.#usedMs.get(work) ?? 0) + workMs;
      if (usedMs > work.limitMs) {
        throw new RangeError(`This and what was done before do not fit into ${work.limitMs} ms`);
      }
      this.#usedMs.set(work, usedMs);
    };
  }
}
