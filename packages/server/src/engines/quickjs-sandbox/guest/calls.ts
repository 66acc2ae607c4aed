import { bridge } from "./bridge.ts";
import { openLog } from "./console.ts";
import { describeThrown, RetryError } from "./errors.ts";
import { method, ownMembers, placeOf } from "./exports.ts";
import { guardChanges, meta, restoreSettings, setMeta, settingsOf } from "./guard-meta.ts";
import {
  type AnyFunction,
  apply,
  bind,
  type Exports,
  isThenable,
  type Json,
  parse,
  stringify,
} from "./intrinsics.ts";
import { makeMeta, type Setup } from "./meta.ts";
import { setSiteUrl } from "./posthog.ts";
import { write } from "./write.ts";

/** What transforms an event. */
export let transformEvent: AnyFunction | undefined;

/** Takes the settings and runs `setupPlugin`. */
export function setUp(text: string): void {
  const setup = parse(text) as Setup;
  setSiteUrl(setup.siteUrl ?? "");
  setMeta(makeMeta({ ...setup, config: settingsOf(setup.config) }));
  const single = placeOf("processEvent");
  const batch = method("processEventBatch");
  if (single !== undefined) {
    // Bound once: to apply it to each event costs twice as much as to call it.
    transformEvent = apply(bind, single["processEvent"] as AnyFunction, [single]) as AnyFunction;
  } else if (batch !== undefined) {
    transformEvent = async (event) => {
      const answer = await batch([event], meta);
      return Array.isArray(answer) ? answer[0] : answer;
    };
  }
  report("setUp", () => method("setupPlugin")?.(meta));
}

/** Runs something and tells the host how it ended: at once, or when its promise settles. */
function report(name: string, work: () => unknown): void {
  const done = (value: unknown) => {
    let text: string | undefined;
    try {
      text = stringify(value);
    } catch (error) {
      fail(error);
      return;
    }
    bridge.call("done", `${write([name, true, null]).slice(0, -5)}${text ?? "null"}]`);
  };
  const fail = (error: unknown) => {
    const isRetry = error instanceof RetryError || (error as Error | null)?.name === "RetryError";
    bridge.call("done", write([name, false, describeThrown(error).slice(0, 4_000), isRetry]));
  };
  try {
    const answer = work();
    if (isThenable(answer)) answer.then(done, fail);
    else done(answer);
  } catch (error) {
    fail(error);
  }
}

/** Runs a method beside events, and tells the host what it answers. */
export function invoke(text: string): void {
  openLog();
  guardChanges();
  if (restoreSettings !== null) restoreSettings();
  const { id, kind, event, name, payload } = parse(text) as {
    id: number;
    kind: string;
    event: Exports;
    name: string;
    payload: Json;
  };
  report(`call ${id}`, () => {
    switch (kind) {
      case "onEvent":
        return method("onEvent")?.(event, meta);
      case "exportEvents": {
        const ignored = (meta["config"] as Record<string, Json> | null)?.["exportEventsToIgnore"];
        const names = typeof ignored === "string" ? ignored.split(",") : [];
        if (names.some((one) => one.trim() === event["event"])) return undefined;
        return method("exportEvents")?.([event], meta);
      }
      case "composeWebhook": {
        const posthogEvent = { ...event };
        posthogEvent["timestamp"] = new Date(posthogEvent["timestamp"] as string);
        return method("composeWebhook")?.(posthogEvent, meta);
      }
      case "job": {
        const handler = ownMembers("jobs")[name];
        if (typeof handler !== "function") throw new Error(`There is no job ${name}`);
        return handler(payload, meta);
      }
      default:
        return method(kind)?.(meta);
    }
  });
}
