/** Uniform numbers of the mulberry32 generator. */
export function createDraws(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Four standard errors of a share of so many runs. */
export function slack(share: number, runs: number): number {
  return 4 * Math.sqrt((share * (1 - share)) / runs);
}
