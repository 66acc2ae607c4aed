import { createContext, Script } from "node:vm";
import type {
  BacktrackingPattern,
  BacktrackingPatterns,
  PatternBudget,
} from "@hedgerow/core/flags/pattern";

/** One match may take this long; ordinary patterns need microseconds. */
const DEFAULT_MATCH_LIMIT_MS = 10;

/** A stopped match that had little of the processor was starved, not evil: it gets more goes. */
const MAX_ATTEMPTS = 3;
const STARVED_SHARE = 0.5;

/** Answers kept per pattern: a watched match costs some 150 µs, mostly for the watchdog. */
const MAX_KEPT_ANSWERS = 256;
const MAX_KEPT_SUBJECT_LENGTH = 1_000;

/**
 * V8's own backtracking engine under a watchdog: `node:vm` ends a match at the time limit, also in
 * the middle of a regular expression. Nothing but the match runs in there.
 */
export function createBacktrackingRegex({
  matchLimitMs = DEFAULT_MATCH_LIMIT_MS,
}: {
  readonly matchLimitMs?: number;
} = {}): BacktrackingPatterns {
  const scope: { pattern: RegExp | null; subject: string } = { pattern: null, subject: "" };
  const context = createContext(scope);
  const script = new Script("pattern.test(subject)");

  const run = (pattern: RegExp, subject: string, budget: PatternBudget): boolean | "stopped" => {
    scope.pattern = pattern;
    scope.subject = subject;
    for (let attempt = 0; attempt < MAX_ATTEMPTS && budget.timeMs > 0; attempt += 1) {
      const timeout = Math.max(1, Math.ceil(Math.min(matchLimitMs, budget.timeMs)));
      const cpu = process.cpuUsage();
      const startedMs = performance.now();
      try {
        return script.runInContext(context, { timeout }) === true;
      } catch (error) {
        // The other way to end early is the engine's own stack running out.
        if (!isTimeout(error)) return "stopped";
        const used = process.cpuUsage(cpu);
        if ((used.user + used.system) / 1000 >= timeout * STARVED_SHARE) return "stopped";
      } finally {
        budget.timeMs -= performance.now() - startedMs;
        scope.subject = "";
      }
      scope.subject = subject;
    }
    return "stopped";
  };

  return {
    compile(source, flags) {
      let pattern: RegExp;
      try {
        pattern = new RegExp(source, flags);
      } catch {
        return null;
      }
      return rememberAnswers((subject, budget) => run(pattern, subject, budget));
    },
  };
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ERR_SCRIPT_EXECUTION_TIMEOUT";
}

/** Keeps decided answers, the oldest dropped first; a stopped match is tried anew. */
function rememberAnswers(test: BacktrackingPattern["test"]): BacktrackingPattern {
  const answers = new Map<string, boolean>();
  return {
    test(subject, budget) {
      const known = answers.get(subject);
      if (known !== undefined) return known;
      const answer = test(subject, budget);
      if (answer === "stopped" || subject.length > MAX_KEPT_SUBJECT_LENGTH) return answer;
      if (answers.size >= MAX_KEPT_ANSWERS) {
        for (const oldest of answers.keys()) {
          answers.delete(oldest);
          break;
        }
      }
      answers.set(subject, answer);
      return answer;
    },
  };
}
