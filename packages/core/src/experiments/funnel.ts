/** Something that happened to a person: when, and what it is called. */
export interface FunnelEvent {
  readonly at: number;
  /** The steps it can serve, by index; 0 is the exposure. Larger ones stand for exclusions. */
  readonly steps: readonly number[];
}

/** How the steps of a funnel have to follow. */
export interface FunnelRule {
  /** Steps, the exposure included. */
  readonly stepCount: number;
  /** From a chain's own exposure to its last step, inclusive, in the unit of `at`; absent for no limit. */
  readonly window?: number;
  /** Whether only the first exposure may start a chain; any may otherwise. */
  readonly anchor?: "any" | "first";
  /** What ends a chain where it happens between two of its steps; of steps in order only. */
  readonly exclusions?: readonly ChainExclusion[];
}

/** Events with the index `step` end chains that are past the step `from` and before `to`. */
export interface ChainExclusion {
  readonly step: number;
  readonly from: number;
  readonly to: number;
}

/**
 * The furthest step that some chain of events reaches in order, from an exposure on: -1 without
 * exposure. Times do not decrease along a chain, equal times count as any order, and an event serves
 * one step (statistics 1.2). For each step the latest start of a chain that reaches it is kept, since
 * a later start leaves more of the window. An exclusion counts strictly between the times of its steps.
 */
export function furthestStep(events: readonly FunnelEvent[], rule: FunnelRule): number {
  const starts = new Array<number>(rule.stepCount).fill(Number.NEGATIVE_INFINITY);
  const window = rule.window ?? Number.POSITIVE_INFINITY;
  let isAnchored = false;
  let furthest = -1;
  for (const group of byTime(events)) {
    const at = group[0]?.at ?? 0;
    const before = [...starts];
    const ending = (rule.exclusions ?? []).filter(({ step }) =>
      group.some(({ steps }) => steps.includes(step)),
    );
    for (const { from, to } of ending) starts.fill(Number.NEGATIVE_INFINITY, from, to);
    for (let reached = -1; reached < rule.stepCount - 1; reached += 1) {
      const start = reached === -1 ? at : (before[reached] ?? Number.NEGATIVE_INFINITY);
      if (start === Number.NEGATIVE_INFINITY || at - start > window) continue;
      if (reached === -1 && isAnchored && rule.anchor === "first") continue;
      const steps = consecutiveSteps(group, reached + 1, rule.stepCount);
      for (let step = reached + 1; step <= reached + steps; step += 1) {
        // Who was past `from` before this time and is not at `to` now goes no further.
        if (ending.some(({ from, to }) => reached >= from && step < to)) continue;
        starts[step] = Math.max(starts[step] ?? Number.NEGATIVE_INFINITY, start);
      }
      furthest = Math.max(furthest, reached + steps);
    }
    // Nothing undoes a step.
    if (furthest === rule.stepCount - 1) break;
    isAnchored ||= group.some(({ steps }) => steps.includes(0));
  }
  return furthest;
}

/**
 * How many of the steps after the exposure are done in any order inside the window of one exposure, at
 * or after it, each by an event of its own; -1 without exposure. Of events that can serve the same steps
 * only so many matter as there are steps, so that a unit with many events takes no longer than they take
 * to go through.
 */
export function stepsDoneInAnyOrder(events: readonly FunnelEvent[], rule: FunnelRule): number {
  const window = rule.window ?? Number.POSITIVE_INFINITY;
  const sorted = [...events].sort((left, right) => left.at - right.at);
  const inside = countAlike();
  const known = new Map<string, number>();
  let most = -1;
  let first = 0;
  let next = 0;
  for (const exposure of sorted) {
    if (!exposure.steps.includes(0)) continue;
    for (let event = sorted[next]; event; event = sorted[next]) {
      if (event.at - exposure.at > window) break;
      inside.add(event, 1);
      next += 1;
    }
    for (let event = sorted[first]; event && event.at < exposure.at; event = sorted[first]) {
      inside.add(event, -1);
      first += 1;
    }
    inside.add(exposure, -1);
    const candidates = inside.candidates(rule.stepCount - 1);
    inside.add(exposure, 1);
    const name = candidates.map(({ steps }) => steps.join()).join(" ");
    const done = known.get(name) ?? stepsServed(candidates, rule.stepCount);
    known.set(name, done);
    most = Math.max(most, done);
    if (most === rule.stepCount - 1) break;
  }
  return most;
}

/** Counts events that can serve the same steps. */
function countAlike() {
  const counts = new Map<string, { readonly steps: readonly number[]; count: number }>();
  return {
    add({ steps }: FunnelEvent, count: number): void {
      if (!steps.some((step) => step > 0)) return;
      const name = steps.join();
      const alike = counts.get(name) ?? { steps, count: 0 };
      alike.count += count;
      counts.set(name, alike);
    },
    /** One event for each that is counted, of those that are alike so many at most. */
    candidates: (most: number): readonly FunnelEvent[] =>
      [...counts.values()].flatMap(({ steps, count }) =>
        Array.from({ length: Math.min(count, most) }, () => ({ at: 0, steps })),
      ),
  };
}

/** How many of the steps after the exposure can be served, each by another event. */
function stepsServed(events: readonly FunnelEvent[], stepCount: number): number {
  const served = new Map<FunnelEvent, number>();
  let done = 0;
  for (let step = 1; step < stepCount; step += 1)
    if (findServer(events, step, served, new Set())) done += 1;
  return done;
}

/** Events that happened at one time, in the order of times. */
function* byTime(events: readonly FunnelEvent[]): Generator<readonly FunnelEvent[]> {
  const sorted = [...events].sort((left, right) => left.at - right.at);
  for (let index = 0; index < sorted.length; ) {
    const first = sorted[index];
    let end = index + 1;
    while (end < sorted.length && sorted[end]?.at === first?.at) end += 1;
    yield sorted.slice(index, end);
    index = end;
  }
}

/** How many steps from `first` on can be served one after another, each by another event of the group. */
function consecutiveSteps(group: readonly FunnelEvent[], first: number, stepCount: number): number {
  const served = new Map<FunnelEvent, number>();
  let steps = 0;
  while (first + steps < stepCount && findServer(group, first + steps, served, new Set()))
    steps += 1;
  return steps;
}

/** Finds an event for a step, moving earlier ones to other steps where that helps (an augmenting path). */
function findServer(
  events: readonly FunnelEvent[],
  step: number,
  served: Map<FunnelEvent, number>,
  tried: Set<FunnelEvent>,
): boolean {
  for (const event of events) {
    if (tried.has(event) || !event.steps.includes(step)) continue;
    tried.add(event);
    const other = served.get(event);
    if (other === undefined || findServer(events, other, served, tried)) {
      served.set(event, step);
      return true;
    }
  }
  return false;
}
