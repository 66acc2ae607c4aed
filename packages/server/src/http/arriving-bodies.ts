import type { IncomingHttpHeaders } from "node:http";
import { Transform } from "node:stream";
import type { RequestPayload } from "fastify";
import { Refusal } from "./errors.ts";

/** Bodies of requests on their way here, of which the memory holds what has come so far. */
export interface ArrivingBodies {
  /**
   * One begins to arrive.
   * @param giveUp called, once at most, where too much is held and this is the body that has been arriving longest
   */
  begin(giveUp: () => void): ArrivingBody;
}

export interface ArrivingBody {
  /** One more piece of it is held, of so many bytes. */
  add(bytes: number): void;
  /** It is all there, or nobody waits for it any more; may be called again. */
  end(): void;
}

/** Most bytes of bodies that are on their way at a time. */
const MAX_ARRIVING_BYTES = 128 * 1024 * 1024;
/** What a piece takes besides its bytes: each is an object, and a chunk on the wire may have one byte. */
const PIECE_BYTES = 256;
/** Shorter bodies, where they tell their size, are not worth counting. */
const MIN_COUNTED_BYTES = 16 * 1024;

/**
 * Holds all bodies that arrive at a time to a bound. Who sends them is not known yet: where it is passed, the
 * one that takes longest gives its room to the others, so that nobody can fill it by beginning and not going on.
 */
export function createArrivingBodies(maxBytes = MAX_ARRIVING_BYTES): ArrivingBodies {
  /** Bytes of each that has not ended, in the order in which they began. */
  const held = new Map<() => void, number>();
  let total = 0;

  function end(giveUp: () => void): void {
    total -= held.get(giveUp) ?? 0;
    held.delete(giveUp);
  }

  return {
    begin(giveUp) {
      held.set(giveUp, 0);
      return {
        add(bytes) {
          const before = held.get(giveUp);
          if (before === undefined) return;
          const taken = bytes + PIECE_BYTES;
          held.set(giveUp, before + taken);
          total += taken;
          for (const oldest of held.keys()) {
            if (total <= maxBytes) break;
            end(oldest);
            oldest();
          }
        },
        end: () => end(giveUp),
      };
    },
  };
}

/** What those are told that give up. */
export function tooMuchArrives(): Refusal {
  return new Refusal("unavailable", "Too many large requests at a time. Please try again.", {
    headers: { "retry-after": "1" },
  });
}

/** Something that is asked before more than some bytes of a body are read; rejects where that is not to be. */
export interface AskBeyond {
  readonly bytes: number;
  readonly ask: () => Promise<unknown>;
}

/**
 * The framework's stream of a body, counted among those that arrive.
 * @param maxBytes beyond which nobody keeps what comes
 */
export function countArriving(
  bodies: ArrivingBodies,
  headers: IncomingHttpHeaders,
  {
    payload,
    maxBytes,
    beyond,
  }: {
    readonly payload: RequestPayload;
    readonly maxBytes: number;
    readonly beyond?: AskBeyond | undefined;
  },
): RequestPayload {
  const isShort = Number(headers["content-length"] ?? 0) <= MIN_COUNTED_BYTES;
  if (headers["transfer-encoding"] === undefined && isShort) return payload;
  let received = 0;
  let isAsked = false;
  const counted = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      received += chunk.length;
      if (received > maxBytes) arriving.end();
      else arriving.add(chunk.length);
      if (isAsked || !beyond || received <= beyond.bytes) {
        done(null, chunk);
        return;
      }
      isAsked = true;
      beyond.ask().then(() => done(null, chunk), done);
    },
  });
  const arriving = bodies.begin(() => counted.destroy(tooMuchArrives()));
  // Whoever reads it may have gone: there is nobody to tell then.
  counted.on("error", () => {});
  payload.once("error", (error) => counted.destroy(error));
  payload.once("close", () => {
    arriving.end();
    if (!payload.readableEnded) counted.destroy();
  });
  counted.once("close", () => {
    arriving.end();
    // What still comes is read, and forgotten: only then an answer gets through.
    payload.unpipe(counted);
    payload.resume();
  });
  // Not before: of what nobody reads the server itself lets go.
  counted.once("resume", () => payload.pipe(counted));
  return counted;
}
