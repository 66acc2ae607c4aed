import { put, stringify } from "./intrinsics.ts";

export class RetryError extends Error {
  _attempt: number | undefined;
  _maxAttempts: number | undefined;

  constructor(message?: string) {
    super(message);
    this.name = "RetryError";
  }

  get nameWithAttempts(): string {
    return this._attempt && this._maxAttempts
      ? `${this.name} (attempt ${this._attempt}/${this._maxAttempts})`
      : this.name;
  }

  override toString(): string {
    return this.message ? `${this.nameWithAttempts}: ${this.message}` : this.nameWithAttempts;
  }
}

/** `Name: message`, or `Name [CODE]: message`, becomes an error of that kind where there is one. */
export function errorOf(text: string): Error {
  const match = /^(\w*Error)(?: \[([A-Z][A-Z0-9_]*)\])?: /.exec(text);
  if (match === null) return new Error(text);
  const [head, name = "", code] = match;
  const kinds: Record<string, ErrorConstructor> = { Error, RangeError, TypeError, SyntaxError };
  const kind = kinds[name];
  const error = kind === undefined ? new Error(text) : new kind(text.slice(head.length));
  if (code !== undefined) put(error, "code", code, true);
  return error;
}

/** What was thrown, in words; whatever it is. */
export function describeThrown(thrown: unknown): string {
  try {
    if (thrown instanceof Error) {
      const name = String(thrown.name);
      return name === "" ? String(thrown.message) : `${name}: ${thrown.message}`;
    }
    if (typeof thrown === "object" && thrown !== null) return stringify(thrown) ?? "an object";
    return String(thrown);
  } catch {
    return "something that cannot be described";
  }
}
