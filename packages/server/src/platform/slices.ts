/** Work goes on for so long before the rest of the process gets its turn. */
const SLICE_MS = 10;

/** Long work cut into slices, so that whoever else waits is served in between. */
export interface Slices {
  /** Whether the current slice has lasted long enough. */
  isOver(): boolean;
  /** Lets everything else that waits have its turn, input and output included; begins a slice. */
  next(): Promise<void>;
}

/** Slices of some milliseconds, the first beginning now. */
export function createSlices(
  sliceMs: number = SLICE_MS,
  nowMs: () => number = () => performance.now(),
): Slices {
  let endMs = nowMs() + sliceMs;
  return {
    isOver: () => nowMs() >= endMs,
    async next() {
      await new Promise<void>((resolve) => setImmediate(resolve));
      endMs = nowMs() + sliceMs;
    },
  };
}

/** The items that are accepted, as `filter` finds them, found in slices. */
export async function filterInSlices<Item>(
  items: Iterable<Item>,
  isAccepted: (item: Item) => boolean,
  slices: Slices = createSlices(),
): Promise<Item[]> {
  const accepted: Item[] = [];
  for (const item of items) {
    if (slices.isOver()) await slices.next();
    if (isAccepted(item)) accepted.push(item);
  }
  return accepted;
}
