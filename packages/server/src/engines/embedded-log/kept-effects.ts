/** What is kept of effects until they are forgotten, so that it stays within a bound. */
export function createKeptEffects(maxChars: number) {
  /** By position, oldest first. */
  const sizes = new Map<number, number>();
  let chars = 0;
  let forgotten = 0;
  return {
    /** Some begin their way to the disk: `false` where there are too many with them. */
    begin(some: number): boolean {
      if (some > 0 && chars > 0 && chars + some > maxChars) return false;
      chars += some;
      return true;
    },
    /** They did not get there. */
    giveUp(some: number): void {
      chars -= some;
    },
    /** They are there. */
    add(position: number, some: number): void {
      // Readers may have seen them before this thread heard of them.
      if (position <= forgotten) chars -= some;
      else sizes.set(position, some);
    },
    /** A start finds them. */
    find(position: number, some: number): void {
      chars += some;
      sizes.set(position, some);
    },
    forget(upTo: number): void {
      forgotten = Math.max(forgotten, upTo);
      for (const [position, some] of sizes) {
        if (position > upTo) return;
        sizes.delete(position);
        chars -= some;
      }
    },
    forgotten: () => forgotten,
    /** Whether they take more than half of the room. */
    areMany: () => chars > maxChars / 2,
  };
}
