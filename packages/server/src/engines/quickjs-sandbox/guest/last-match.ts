import { apply } from "./intrinsics.ts";

/**
 * The last match on `RegExp` (`RegExp.$1`), which QuickJS does not keep. Slows expressions down, so
 * only where a source mentions it.
 */
export function keepLastMatch(): void {
  const native = RegExp.prototype.exec;
  let last: RegExpExecArray | null = null;
  const { exec } = {
    exec(this: RegExp, text: string): RegExpExecArray | null {
      const match = apply(native, this, [text]) as RegExpExecArray | null;
      if (match !== null) last = match;
      return match;
    },
  };
  Object.defineProperty(RegExp.prototype, "exec", {
    value: exec,
    writable: true,
    configurable: true,
  });
  const readers: Record<string, (match: RegExpExecArray) => string | undefined> = {
    input: (match) => match.input,
    lastMatch: (match) => match[0],
    lastParen: (match) => (match.length > 1 ? match[match.length - 1] : ""),
    leftContext: (match) => match.input.slice(0, match.index),
    rightContext: (match) => match.input.slice(match.index + match[0].length),
  };
  const aliases = { input: "$_", lastMatch: "$&", lastParen: "$+", leftContext: "$`" };
  for (const [name, alias] of [...Object.entries(aliases), ["rightContext", "$'"]]) {
    readers[alias as string] = readers[name as string] as (match: RegExpExecArray) => string;
  }
  for (let group = 1; group <= 9; group += 1) readers[`$${group}`] = (match) => match[group];
  for (const [name, read] of Object.entries(readers)) {
    const get = () => (last === null ? "" : (read(last) ?? ""));
    Object.defineProperty(RegExp, name, { get, set() {}, configurable: true });
  }
}
