import type { Stage } from "./stage.ts";

/**
 * What is left of its chain for an event that began with another one: it passes the chain of the
 * moment in which it began, in the order and with the versions of now, without what is gone. Where a
 * config was deleted and another one of the same transformation made, that stands for it; whatever
 * else is new since then is not for this event.
 *
 * @param began the chain that it began with, or what was left of that when it went on last
 * @param hasPassed whether it has passed a config
 */
export function continueChain<One extends Pick<Stage, "configId" | "transformationId">>(
  began: readonly One[],
  now: readonly One[],
  hasPassed: (configId: number) => boolean,
): readonly One[] {
  const without = (some: readonly One[], others: readonly One[]) =>
    some.filter(({ configId }) => !others.some((other) => other.configId === configId));
  const gone = without(began, now);
  // What it has passed may be in what it began with no more.
  const made = without(now, began).filter(({ configId }) => !hasPassed(configId));
  return now.filter((stage) => {
    const stoodAt = made.includes(stage) ? stoodFor(stage) : stage;
    return stoodAt !== undefined && !hasPassed(stoodAt.configId);
  });

  /** What a new stage stands for: of several of one transformation the first for the first. */
  function stoodFor(stage: One): One | undefined {
    const ofSame = (some: readonly One[]) =>
      some.filter(({ transformationId }) => transformationId === stage.transformationId);
    return ofSame(gone)[ofSame(made).indexOf(stage)];
  }
}
