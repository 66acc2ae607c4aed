import { createHash } from "node:crypto";
import type { FrozenAnswer, FrozenAnswers } from "./frozen-answers.ts";

/** What is asked of one experiment, in one window. */
export interface AskedOf {
  readonly projectId: number;
  readonly experimentId: number;
  readonly from: Date;
  /** `null` while it runs, also where its end is set already. */
  readonly to: Date | null;
  /**
   * All that decides an answer beside the window, the questions and the stored events: the flag, the
   * project's settings. An answer that is frozen stays whatever becomes of it.
   */
  readonly circumstances: unknown;
  /** Answers anew what is not frozen. */
  readonly refresh: boolean;
}

/** When an answer was computed, and whether that was before it was asked for. */
export interface Freshness {
  readonly computedAt: Date;
  readonly isCached: boolean;
}

/** An answer with its freshness; `value` went through JSON, which here tells infinite numbers too. */
export interface KeptAnswer<Value> extends Freshness {
  readonly value: Value;
}

/**
 * Answers questions once: as long as no event was stored since, what was computed is answered again for
 * some minutes, and whoever asks the same at the same time waits for one computation. The first complete
 * answers of an ended experiment are frozen: they are answered for ever, the first time included.
 *
 * The answers to `questions`, values that JSON tells apart, are in order; `compute` is told the places of
 * those that nothing is kept of, and answers them in order.
 */
export type KeepAnswers = <Value>(
  asked: AskedOf,
  questions: readonly unknown[],
  compute: (places: readonly number[]) => Promise<readonly Value[]>,
) => Promise<readonly KeptAnswer<Value>[]>;

/** Answers are remembered for so long; who needs those to events of the future sooner asks anew. */
const REMEMBERED_MS = 10 * 60_000;
/** What is remembered of all projects, in UTF-16 units. */
const REMEMBERED_CHARS = 8 * 1024 * 1024;

/** {@link KeepAnswers} in memory, and for ended experiments in a store. */
export function createKeepAnswers({
  frozenAnswers,
  caughtUp,
  dataVersion,
  clock,
}: {
  frozenAnswers: FrozenAnswers;
  /** Whether everything captured before is stored; `false` where that takes too long. */
  caughtUp: (projectId: number) => Promise<boolean>;
  /** Changes with every change of what is stored. */
  dataVersion: () => Promise<string>;
  clock: () => Date;
}): KeepAnswers {
  const remembered = createMemory(REMEMBERED_CHARS);
  const underWay = new Map<string, Promise<readonly FrozenAnswer[]>>();

  return async <Value>(
    asked: AskedOf,
    questions: readonly unknown[],
    compute: (places: readonly number[]) => Promise<readonly Value[]>,
  ): Promise<readonly KeptAnswer<Value>[]> => {
    const { experimentId, refresh } = asked;
    const hasEnded = asked.to !== null;
    const window = JSON.stringify([asked.from, asked.to]);
    const keys = questions.map((question) => keyOf(window, question));
    const answers = new Map<string, FrozenAnswer & { readonly isCached: boolean }>();
    const take = (found: readonly FrozenAnswer[], isCached: boolean) => {
      for (const answer of found) answers.set(answer.key, { ...answer, isCached });
    };
    const placesLeft = () => places(keys.length).filter((place) => !answers.has(keys[place] ?? ""));

    if (hasEnded) take(await frozenAnswers.find(experimentId, keys), true);
    const isFrozen = new Set(answers.keys());
    if (placesLeft().length > 0) {
      const isComplete = await caughtUp(asked.projectId);
      const version = await dataVersion();
      const state = keyOf(experimentId, asked.circumstances, version);
      const now = clock().getTime();
      const nameOf = (key: string) => `${state} ${key}`;
      if (!refresh)
        for (const place of placesLeft()) {
          const key = keys[place] ?? "";
          const known = remembered.get(nameOf(key));
          if (known && now - known.computedAt.getTime() < REMEMBERED_MS)
            take([{ ...known, key }], true);
        }
      const left = placesLeft();
      if (left.length > 0) {
        const work = async () => {
          const computedAt = clock();
          const values = await compute(left);
          return left.map((place, index): FrozenAnswer => {
            const body = written(values[index]);
            return { key: keys[place] ?? "", body, computedAt };
          });
        };
        const computed = await shared(
          underWay,
          keyOf(
            state,
            left.map((place) => keys[place]),
          ),
          work,
        );
        for (const answer of computed) remembered.set(nameOf(answer.key), answer);
        take(computed, false);
      }
      if (hasEnded && isComplete) {
        const fresh = [...answers.values()].filter(({ key }) => !isFrozen.has(key));
        take(await frozenAnswers.freeze(experimentId, window, fresh), true);
      }
    }
    return keys.map((key): KeptAnswer<Value> => {
      const answer = answers.get(key);
      if (!answer) throw new Error("a question was not answered");
      const { body, computedAt, isCached } = answer;
      return { value: read(body) as Value, computedAt, isCached };
    });
  };
}

function places(count: number): readonly number[] {
  return Array.from({ length: count }, (_, place) => place);
}

/** JSON, and apart from it the numbers that JSON has none for: as `null` a sum would be none at all. */
function written(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) =>
    typeof one === "number" && !Number.isFinite(one) ? { notFinite: String(one) } : one,
  );
}

function read(body: string): unknown {
  if (!body.includes('{"notFinite":')) return JSON.parse(body);
  return JSON.parse(body, (_, one: unknown) =>
    typeof one === "object" && one !== null && "notFinite" in one ? Number(one.notFinite) : one,
  );
}

/** Tells values apart that JSON tells apart. */
function keyOf(...values: readonly unknown[]): string {
  return createHash("sha256").update(JSON.stringify(values, withDigits)).digest("hex");
}

/** JSON of whole numbers that were read with all their digits. */
function withDigits(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? { digits: String(value) } : value;
}

/** Work under a name, once at a time. */
function shared<Result>(
  underWay: Map<string, Promise<Result>>,
  name: string,
  work: () => Promise<Result>,
): Promise<Result> {
  const running = underWay.get(name);
  if (running) return running;
  const started = work().finally(() => underWay.delete(name));
  underWay.set(name, started);
  return started;
}

/** Answers by name, of which those that were not asked for the longest leave when there are too many. */
function createMemory(maxChars: number) {
  const answers = new Map<string, FrozenAnswer>();
  let chars = 0;
  const remove = (name: string) => {
    chars -= answers.get(name)?.body.length ?? 0;
    answers.delete(name);
  };
  return {
    get(name: string): FrozenAnswer | undefined {
      const answer = answers.get(name);
      if (answer) {
        answers.delete(name);
        answers.set(name, answer);
      }
      return answer;
    },
    set(name: string, answer: FrozenAnswer): void {
      remove(name);
      answers.set(name, answer);
      chars += answer.body.length;
      for (const oldest of answers.keys()) {
        if (chars <= maxChars) break;
        remove(oldest);
      }
    },
  };
}
