import { errorOf } from "./errors.ts";
import { type AnyFunction, type Json, parse, scope } from "./intrinsics.ts";
import { write } from "./write.ts";

/** Calls that reach the outside. Texts in, text out. */
interface Bridge {
  /** Answers at once; a text that starts with `!` is an error of that message. */
  call(op: string, argument: string): string | undefined;
  /** The next event to work on by itself, or -1; tells which one is done, or -1, and what became of it. */
  begin(done: number, outcome: string): number;
  /** Room for the marks of a run. */
  readonly marks: ArrayBuffer;
  /** What an attached file holds. */
  bytes(key: string): ArrayBuffer;
  /** Bytes in an encoding that Node.js knows, as JSON. */
  text(bytes: ArrayBuffer, encoding: string): string;
}

/** Out of reach for code from here on. */
export const bridge = scope["__bridge"] as Bridge;
delete scope["__bridge"];

const settlers = new Map<number, { resolve: AnyFunction; reject: AnyFunction }>();
let asked = 0;

/** Asks the host, which answers at once; throws its error. */
export function call(op: string, argument: unknown): Json {
  const answer = bridge.call(op, write(argument));
  if (answer === undefined || answer === "") return undefined;
  if (answer.charCodeAt(0) === 33) throw errorOf(answer.slice(1));
  return parse(answer);
}

/** Asks the host, which answers later. */
export function ask(op: string, argument: unknown): Promise<Json> {
  asked += 1;
  const id = asked;
  const answer = bridge.call("ask", write([id, op, argument]));
  if (answer !== undefined && answer.charCodeAt(0) === 33) {
    return Promise.reject(errorOf(answer.slice(1)));
  }
  return new Promise((resolve, reject) => {
    settlers.set(id, { resolve: resolve as AnyFunction, reject: reject as AnyFunction });
  });
}

/** The answer to what was asked: `[id, ok, value or message]`. */
export function settle(text: string): void {
  const [id, ok, value] = parse(text) as [number, boolean, Json];
  const settler = settlers.get(id);
  if (settler === undefined) return;
  settlers.delete(id);
  if (ok) settler.resolve(value);
  else settler.reject(errorOf(String(value)));
}
