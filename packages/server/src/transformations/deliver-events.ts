import { encodeJson } from "@hedgerow/core/exact-json";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { pluginEventOf } from "@hedgerow/core/transformations/plugin-event";
import { rowsOfProjects } from "../events/event-rows.ts";
import type { EventRow, EventRows } from "../events/event-store.ts";
import type { PersonStore } from "../persons/person-store.ts";
import { isGrantedHost } from "../platform/granted-hosts.ts";
import { type GuardedRequestOptions, requestGuarded } from "../platform/guarded-request.ts";
import type { Chains } from "./chains.ts";
import type { CallOutcome } from "./sandbox.ts";
import type { Stage } from "./stage.ts";
import type { TransformationJournal } from "./transformation-journal.ts";
import { EVENT_JOBS, type TransformationJobs, WEBHOOK_JOB } from "./transformation-records.ts";

/**
 * Gives stored events to `onEvent`, `exportEvents` and `composeWebhook`, in order for each config;
 * what is left out, its log tells.
 */
export interface EventDelivery {
  note(rows: EventRows): void;
  /** Sends a webhook that was composed before. Rejects when it should be tried again. */
  send(stage: Stage, request: JsonObject): Promise<void>;
  /** Resolves once what is noted is given out, or after a while. */
  close(): Promise<void>;
}

/** Events that wait for a stage, and how many found no place among them. */
interface Queue {
  readonly waiting: EventRow[];
  left: number;
  running: Promise<void>;
}

/** Events that wait for one config; those beyond are left out, and its log says so. */
const MAX_WAITING = 10_000;
const MAX_BODY_CHARS = 1_000_000;
const REQUEST_MS = 10_000;
const CLOSING_MS = 2_000;
/** Pause before an event is given for the second time; those that follow are as long as any job's. */
const FIRST_RETRY_MS = 5_000;
/** A stage that was replaced or disabled has so long to get through what waits; a newer one waits for it. */
const LEAVING_MS = 5_000;

export function createEventDelivery({
  chains,
  journal,
  jobs,
  persons,
  disable,
  isAllowed,
  siteUrl,
  clock,
}: {
  chains: Pick<Chains, "get">;
  journal: Pick<TransformationJournal, "log">;
  jobs: Pick<TransformationJobs, "add">;
  persons: Pick<PersonStore, "personByDistinctId">;
  disable: (stage: Stage, reason: string) => void;
  /** Whether an address that is not public may be asked; unless given, none may. */
  isAllowed: GuardedRequestOptions["isAllowed"];
  siteUrl: string;
  clock: () => Date;
}): EventDelivery {
  const queues = new Map<Stage, Queue>();
  let isTimeUp = false;

  /**
   * Gives out what waits. A stage that is replaced meanwhile is held until it has had its events, or
   * has had its time; one that is taken out of work has no more.
   */
  async function drain(stage: Stage, queue: Queue): Promise<void> {
    const leftOut = (count: number, why: string) => {
      const message = `${count} events were left out: ${why}.`;
      if (count > 0) journal.log(stage, { source: "SYSTEM", level: "warn", message });
    };
    let leavesAtMs = Number.POSITIVE_INFINITY;
    while (queue.waiting.length > 0 && !stage.isTakenOut && !isTimeUp) {
      const nowMs = performance.now();
      if (stage.isOut) leavesAtMs = Math.min(leavesAtMs, nowMs + LEAVING_MS);
      if (nowMs > leavesAtMs) break;
      const row = queue.waiting.shift() as EventRow;
      try {
        await deliver(stage, row);
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        const message = `An event was left out: ${reason}`;
        journal.log(stage, { source: "SYSTEM", level: "error", message });
      }
      if (queue.left > 0 && queue.waiting.length < MAX_WAITING / 2) {
        leftOut(queue.left, "it did not keep up");
        queue.left = 0;
      }
    }
    const why = stage.isTakenOut
      ? "it is out of work"
      : isTimeUp
        ? "the service was stopped"
        : stage.isOut
          ? `version ${stage.version} has left`
          : "it did not keep up";
    leftOut(queue.waiting.length + queue.left, why);
  }

  function openQueue(stage: Stage): Queue {
    const { configId } = stage;
    // A stage whose place it takes comes first.
    const before = [...queues].findLast(([earlier]) => earlier.configId === configId)?.[1].running;
    const release = stage.hold();
    const queue: Queue = { waiting: [], left: 0, running: Promise.resolve() };
    // Starts in a turn of its own, with everything that is noted in this one.
    queue.running = Promise.resolve(before)
      .then(() => drain(stage, queue))
      .finally(() => {
        queues.delete(stage);
        release();
      });
    queues.set(stage, queue);
    return queue;
  }

  async function deliver(stage: Stage, row: EventRow): Promise<void> {
    const event = await exported(row);
    for (const kind of ["exportEvents", "onEvent"] as const) {
      if (stage.program.methods.includes(kind)) await give(stage, kind, event);
    }
    if (!stage.program.methods.includes("composeWebhook")) return;
    const outcome = await stage.call({ kind: "composeWebhook", event });
    const value = answerIn(stage, "composeWebhook", outcome);
    if (!isJsonObject(value)) return;
    try {
      await send(stage, value);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      await tryLater(stage, { name: WEBHOOK_JOB, payload: value, pauseMs: 0 }, reason);
    }
  }

  /** Gives an event to one that takes events; again later where that asks for it by a `RetryError`. */
  async function give(
    stage: Stage,
    kind: keyof typeof EVENT_JOBS,
    event: JsonObject,
  ): Promise<void> {
    const outcome = await stage.call({ kind, event });
    if (outcome.kind !== "failed" || !outcome.wantsRetry)
      return void answerIn(stage, kind, outcome);
    const job = { name: EVENT_JOBS[kind], payload: event, pauseMs: FIRST_RETRY_MS };
    await tryLater(stage, job, `${kind}: ${outcome.reason}`);
  }

  async function tryLater(
    stage: Stage,
    { name, payload, pauseMs }: { name: string; payload: JsonObject; pauseMs: number },
    reason: string,
  ): Promise<void> {
    const { projectId, configId } = stage;
    const runAt = new Date(clock().getTime() + pauseMs);
    const added = await jobs.add({ projectId, configId, name, payload, runAt, hops: 0 });
    const next =
      added === "full"
        ? "given up, since too many jobs of this transformation wait"
        : "tried again";
    journal.log(stage, { source: "SYSTEM", level: "warn", message: `${reason}; ${next}.` });
  }

  async function exported({ event, personId }: EventRow): Promise<JsonObject> {
    const { projectId, distinctId } = event;
    const person = await persons.personByDistinctId(projectId, distinctId).catch(() => undefined);
    return {
      ...pluginEventOf(event, siteUrl),
      person: {
        uuid: personId,
        team_id: projectId,
        properties: person?.properties ?? {},
        created_at: person?.createdAt.toISOString() ?? null,
      },
    };
  }

  function answerIn(stage: Stage, kind: string, outcome: CallOutcome): Json {
    if (outcome.kind === "answered") {
      stage.suspicion.note("fine");
      return outcome.value;
    }
    if (outcome.kind === "absent") return null;
    const { reason, isLimit } = outcome;
    journal.log(stage, { source: "PLUGIN", level: "error", message: `${kind}: ${reason}` });
    const why = stage.suspicion.note(isLimit ? "exceeded-limit" : "failed", reason);
    if (why !== undefined && !stage.isOut) disable(stage, why);
    return null;
  }

  async function send(stage: Stage, request: JsonObject): Promise<void> {
    const { url, method, headers, body } = readRequest(request);
    const refuse = (message: string) =>
      journal.log(stage, { source: "SYSTEM", level: "error", message: `webhook: ${message}` });
    if (url === null) return refuse("it composed no URL");
    if (body.length > MAX_BODY_CHARS) return refuse("its body is too large");
    const outcome = await requestGuarded(url, {
      ...{ method, headers, body, timeoutMs: REQUEST_MS, maxBytes: 100_000, maxRedirects: 0 },
      // Nobody reads what was answered.
      staysPacked: true,
      ...(isAllowed && { isAllowed }),
      isOpen: (target) => isGrantedHost(target, stage.allowedHosts),
    });
    if (outcome.kind === "refused") return refuse(outcome.detail);
    if (outcome.kind === "failed") throw new Error(`webhook: ${outcome.detail}`);
    const { status } = outcome;
    if (status >= 500 || status === 429) throw new Error(`webhook: answered ${status}`);
    if (status >= 300) refuse(`answered ${status}`);
  }

  return {
    note(rows) {
      const consumers = new Map<number, readonly Stage[]>();
      const consumersOf = (projectId: number) => {
        const known = consumers.get(projectId);
        if (known) return known;
        const stages = chains.get(projectId)?.stages ?? [];
        const found = stages.filter((stage) => isConsumer(stage) && !stage.isOut);
        consumers.set(projectId, found);
        return found;
      };
      for (const row of rowsOfProjects(rows, (projectId) => consumersOf(projectId).length > 0)) {
        for (const stage of consumersOf(row.event.projectId)) {
          const queue = queues.get(stage) ?? openQueue(stage);
          if (queue.waiting.length < MAX_WAITING) queue.waiting.push(row);
          else queue.left++;
        }
      }
    },

    send,

    async close() {
      let timer: NodeJS.Timeout | undefined;
      const timeUp = new Promise((resolve) => {
        timer = setTimeout(resolve, CLOSING_MS);
      });
      await Promise.race([Promise.all([...queues.values()].map((one) => one.running)), timeUp]);
      clearTimeout(timer);
      isTimeUp = true;
    },
  };
}

function isConsumer({ program }: Stage): boolean {
  return ["onEvent", "exportEvents", "composeWebhook"].some((method) =>
    program.methods.includes(method),
  );
}

function readRequest(request: JsonObject) {
  const text = (name: string) => {
    const value = ownValue(request, name);
    return typeof value === "string" ? value : null;
  };
  const headers = ownValue(request, "headers");
  const body = ownValue(request, "body") ?? "";
  return {
    url: text("url"),
    method: (text("method") ?? "POST").toUpperCase(),
    headers: Object.fromEntries(
      Object.entries(isJsonObject(headers) ? headers : {}).flatMap(([name, value]) =>
        value === null || typeof value === "object" ? [] : [[name, String(value)]],
      ),
    ),
    body: typeof body === "string" ? body : encodeJson(body),
  };
}
