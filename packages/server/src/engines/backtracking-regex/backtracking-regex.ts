import type { BacktrackingPatterns, PatternBudget } from "@hedgerow/core/flags/pattern";
import { compileProgram, type Instruction, type Program } from "./pattern-program.ts";

/** One match may take so many steps, a few milliseconds; ordinary ones take some hundreds. */
const MAX_MATCH_STEPS = 100_000;

/**
 * A backtracking matcher that counts its steps. A limit in steps and not in time: the same pattern
 * and subject give the same answer however busy the machine is. Its stack is a list, so a long
 * subject cannot exhaust the call stack.
 */
export function createBacktrackingRegex(): BacktrackingPatterns {
  return {
    compile(source, flags) {
      const program = compileProgram(source, flags);
      if (program === null) return null;
      return {
        test(subject, budget) {
          return new Match(program, subject, budget).search();
        },
      };
    },
  };
}

/** Entries on the stack come in pairs: a branch to take, or (below zero) a slot to put back. */
const RESTORE = -1;

class Match {
  readonly #instructions: readonly Instruction[];
  readonly #isAnchored: boolean;
  readonly #subject: string;
  readonly #budget: PatternBudget;
  readonly #slots: Int32Array;
  readonly #stack: number[] = [];
  #steps: number;

  constructor(program: Program, subject: string, budget: PatternBudget) {
    this.#instructions = program.instructions;
    this.#isAnchored = program.isAnchored;
    this.#subject = subject;
    this.#budget = budget;
    this.#slots = new Int32Array(program.slotCount).fill(-1);
    this.#steps = Math.min(MAX_MATCH_STEPS, budget.backtrackingSteps);
  }

  /** Whether the pattern occurs anywhere; `"stopped"` when the steps run out. */
  search(): boolean | "stopped" {
    const granted = this.#steps;
    let found = false;
    for (let start = 0; !found && this.#steps > 0; ) {
      found = this.#run(0, start, -1) !== -1;
      if (this.#isAnchored || start >= this.#subject.length) break;
      start += this.#widthAt(start);
    }
    this.#budget.backtrackingSteps -= granted - this.#steps;
    if (found) return true;
    return this.#steps > 0 ? false : "stopped";
  }

  /**
   * Runs from an instruction to its `done`. The end of the match, or -1; with `mustEnd` not below
   * zero only a match that ends there counts. Leaves no branches behind, but what it takes to put
   * the slots back.
   */
  #run(startAt: number, startIndex: number, mustEnd: number): number {
    const base = this.#stack.length;
    let at = startAt;
    let index = startIndex;
    for (;;) {
      this.#steps -= 1;
      if (this.#steps <= 0) return -1;
      const instruction = this.#instructions[at] as Instruction;
      let isAlive = true;
      switch (instruction.op) {
        case "take": {
          const code = this.#subject.codePointAt(index);
          if (code === undefined || !instruction.set.has(code)) isAlive = false;
          else {
            index += code > 0xffff ? 2 : 1;
            at += 1;
          }
          break;
        }
        case "split":
          this.#stack.push(instruction.second, index);
          at = instruction.first;
          break;
        case "jump":
          at = instruction.to;
          break;
        case "save":
        case "mark":
          this.#setSlot(instruction.slot, index);
          at += 1;
          break;
        case "progress":
          isAlive = this.#slots[instruction.slot] !== index;
          at += 1;
          break;
        case "assert":
          isAlive = this.#holds(instruction.what, index);
          at += 1;
          break;
        case "reference": {
          const end = this.#repeats(instruction.group, instruction.ignoresCase, index);
          isAlive = end !== -1;
          index = end;
          at += 1;
          break;
        }
        case "look":
          isAlive = this.#look(instruction, at + 1, index);
          at = instruction.after;
          break;
        case "done":
          if (mustEnd < 0 || index === mustEnd) {
            this.#dropBranches(base);
            return index;
          }
          isAlive = false;
          break;
      }
      if (isAlive) continue;
      const branch = this.#backtrack(base);
      if (branch === -1) return -1;
      at = branch;
      index = this.#stack.pop() as number;
    }
  }

  #setSlot(slot: number, value: number): void {
    this.#stack.push(RESTORE - slot, this.#slots[slot] as number);
    this.#slots[slot] = value;
  }

  /** Puts slots back to the latest branch above `base`; leaves its index on the stack. */
  #backtrack(base: number): number {
    while (this.#stack.length > base) {
      const value = this.#stack.pop() as number;
      const target = this.#stack.pop() as number;
      if (target >= 0) {
        this.#stack.push(value);
        return target;
      }
      this.#slots[RESTORE - target] = value;
    }
    return -1;
  }

  #dropBranches(base: number): void {
    let kept = base;
    for (let read = base; read < this.#stack.length; read += 2) {
      const target = this.#stack[read] as number;
      if (target >= 0) continue;
      this.#stack[kept] = target;
      this.#stack[kept + 1] = this.#stack[read + 1] as number;
      kept += 2;
    }
    this.#stack.length = kept;
  }

  #look(look: Extract<Instruction, { op: "look" }>, body: number, index: number): boolean {
    const base = this.#stack.length;
    const found = look.ahead
      ? this.#run(body, index, -1) !== -1
      : this.#lookBehind(body, index, look.width);
    // Out of steps is no answer, least of all to a negated question.
    if (this.#steps <= 0) return false;
    if (!look.negated) return found;
    if (found) this.#backtrack(base);
    return !found;
  }

  #lookBehind(body: number, index: number, width: { min: number; max: number }): boolean {
    let start = index;
    for (let length = 0; length <= width.max; length += 1) {
      if (length >= width.min && this.#run(body, start, index) !== -1) return true;
      if (start === 0 || this.#steps <= 0) return false;
      this.#steps -= 1;
      start -= this.#widthBefore(start);
    }
    return false;
  }

  /** Where the group's text, found again at `index`, ends; -1 if it is not there or not yet known. */
  #repeats(group: number, ignoresCase: boolean, index: number): number {
    const from = this.#slots[2 * group] as number;
    const to = this.#slots[2 * group + 1] as number;
    if (from === -1 || to < from) return -1;
    // Long repeated texts are not for free.
    this.#steps -= to - from;
    const text = this.#subject.slice(from, to);
    const here = this.#subject.slice(index, index + text.length);
    const isSame = ignoresCase ? here.toLowerCase() === text.toLowerCase() : here === text;
    return isSame ? index + text.length : -1;
  }

  #holds(what: "start" | "end" | "word" | "notWord", index: number): boolean {
    if (what === "start") return index === 0;
    if (what === "end") return index === this.#subject.length;
    const isBoundary = this.#isWord(index - 1) !== this.#isWord(index);
    return isBoundary === (what === "word");
  }

  #isWord(index: number): boolean {
    const code = this.#subject.charCodeAt(index);
    return (
      (code >= 0x61 && code <= 0x7a) ||
      (code >= 0x41 && code <= 0x5a) ||
      (code >= 0x30 && code <= 0x39) ||
      code === 0x5f
    );
  }

  #widthAt(index: number): number {
    return (this.#subject.codePointAt(index) ?? 0) > 0xffff ? 2 : 1;
  }

  #widthBefore(index: number): number {
    return index > 1 && (this.#subject.codePointAt(index - 2) ?? 0) > 0xffff ? 2 : 1;
  }
}
