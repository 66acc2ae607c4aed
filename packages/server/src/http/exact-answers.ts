import { holdsBigInt } from "@hedgerow/core/exact-json";
import type { FastifyRequest } from "fastify";
import type { App } from "./app.ts";

/**
 * Lets answers hold `bigint`s, which are written as plain digits: serializers know no such thing, so
 * it passes them as a string that no clean text can be, NUL and the digits.
 */
export function answerExactNumbers(app: App): void {
  const marked = new WeakSet<FastifyRequest>();
  app.addHook("preSerialization", (request, _reply, payload, done) => {
    if (!holdsBigInt(payload)) return done(null, payload);
    marked.add(request);
    done(null, withMarks(payload));
  });
  app.addHook("onSend", (request, _reply, payload, done) => {
    if (typeof payload !== "string" || !marked.has(request)) return done(null, payload);
    done(null, payload.replace(MARKED, "$1"));
  });
}

/** Keys, which a colon follows, and what stands after an escaped quote are no marks. */
const MARKED = /(?<!\\)"\\u0000(-?\d+)"(?!:)/g;

function withMarks(value: unknown): unknown {
  if (typeof value === "bigint") return `\0${value}`;
  if (typeof value !== "object" || value === null) return value;
  // In what came from outside it may be a key as any other.
  if ("toJSON" in value && typeof value.toJSON === "function") return value;
  if (Array.isArray(value)) return value.map(withMarks);
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, withMarks(member)]));
}
