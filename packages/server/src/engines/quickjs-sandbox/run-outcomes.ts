import type { Json } from "@hedgerow/core/json";
import type { Spending } from "./cpu-meter.ts";
import { ToldSets } from "./event-changes.ts";
import { SEPARATOR } from "./sandbox-messages.ts";

/** What the guest says that a run came to. */
export interface RunOutcomes {
  /** What became of its events, in their order. */
  readonly texts: readonly string[];
  readonly sets: ToldSets;
  /** What an event has cost of all that the run has. */
  cpuMsOf(index: number): number;
}

/** Reads what a run came to (`guest/run.ts`): the long events cost their own time, the others share the rest. */
export function readRun(text: string, spendings: readonly Spending[]): RunOutcomes {
  const [head = "", sets = "", ...texts] = text.split(SEPARATOR);
  const longs = texts.length === 0 ? [] : readNumbers(head);
  const allMs = spendings.reduce((sum, { cpuMs }) => sum + Math.max(0, cpuMs), 0);
  const longMs = new Map<number, number>();
  let sumMs = 0;
  for (let at = 0; at + 1 < longs.length; at += 2) {
    const ms = Number(longs[at + 1]);
    longMs.set(Number(longs[at]), ms);
    sumMs += ms;
  }
  const share = sumMs > allMs ? allMs / sumMs : 1;
  const others = texts.length - longMs.size;
  const otherMs = others > 0 ? (allMs - sumMs * share) / others : 0;
  const cpuMsOf = (index: number) => {
    const ms = longMs.get(index);
    return ms ? ms * share : otherMs;
  };
  return { texts, sets: new ToldSets(sets), cpuMsOf };
}

function readNumbers(text: string): readonly number[] {
  const read = JSON.parse(text) as Json;
  return Array.isArray(read) ? read.map(Number) : [];
}
