import { isJsonObject, ownValue } from "@hedgerow/core/json";
import { hopsOf } from "@hedgerow/core/transformations/plugin-event";
import type { GivenEvent, SandboxEvent } from "../../transformations/sandbox.ts";
import type { GuestCause } from "./sandbox-messages.ts";

/** So much is remembered exactly; of what was given before, the greatest depth. */
const MAX_REMEMBERED = 1_000;
const DEEPEST = 255;

/**
 * How deep the events were captured themselves that an instance was given: what they set going may
 * capture when they have passed long ago.
 */
export class PassedDepths {
  /** By batch or call, where there are such events at all. */
  readonly #depths = new Map<number, Uint8Array>();
  #forgotten = { upTo: 0, depth: 0 };

  /** Notes what a batch or call is given; numbers grow. */
  note(id: number, events: readonly Pick<GivenEvent, "hops">[]): void {
    if (!events.some(({ hops }) => hops > 0)) return;
    const depths = Uint8Array.from(events, ({ hops }) => Math.min(DEEPEST, Math.ceil(hops)));
    this.#depths.set(id, depths);
    if (this.#depths.size <= MAX_REMEMBERED) return;
    const [[oldest, forgotten] = [0, depths]] = this.#depths;
    this.#depths.delete(oldest);
    this.#forgotten = { upTo: oldest, depth: Math.max(this.#forgotten.depth, ...forgotten) };
  }

  /** The depth of an event; without one, the greatest of a batch or call. */
  of({ id, event }: GuestCause): number {
    const depths = this.#depths.get(id);
    if (depths === undefined) return id <= this.#forgotten.upTo ? this.#forgotten.depth : 0;
    return event === null ? Math.max(...depths) : (depths[event] ?? 0);
  }
}

/** How deep an event says that it was captured by transformations. */
export function depthOf(event: SandboxEvent): number {
  const properties = ownValue(event, "properties");
  return isJsonObject(properties) ? hopsOf(properties) : 0;
}
