import { addedToo } from "@hedgerow/core/events/added-properties";
import type { AddedProperties, CapturedEvent, LoggedEvent } from "@hedgerow/core/events/event";
import { encodeJson } from "@hedgerow/core/exact-json";
import { extendJson, extendJsonText } from "@hedgerow/core/extend-json";
import { createIsoWriter } from "@hedgerow/core/iso-times";
import { type JsonObject, ownValue } from "@hedgerow/core/json";
import {
  additionOf,
  capturedEventOf,
  type EventChange,
  headTextOf,
  hopsOf,
  type PluginEvent,
  pluginEventOf,
  takeChange,
} from "@hedgerow/core/transformations/plugin-event";
import type { StepOutcome } from "../events/steps/step.ts";
import type { GivenEvent, TextOutcome } from "./sandbox.ts";
import type { Stage } from "./stage.ts";
import type { WriteOwner } from "./storage-buffer.ts";
import { createTrails, type Passing, type Trail } from "./trail.ts";
import type { NewJob, OwnMetric } from "./transformation-records.ts";

/** A job that an event asks for, with its line for the log. */
export interface AskedJob {
  readonly job: NewJob;
  readonly line: string;
}

/** A number that a stage counted itself while it worked on an event. */
export interface OwnCount {
  readonly stage: Stage;
  readonly name: string;
  readonly metric: OwnMetric;
}

/** What an event came to in a stage, and in those before. */
export interface Count {
  readonly stage: Stage;
  readonly kind: "out" | "dropped" | "failed";
  readonly cpuMs: number;
  readonly before: Count | undefined;
}

/** What is made once for many events of a lane: those that follow one another have much in common. */
export interface LaneMemory {
  readonly siteUrl: string;
  /** Where events begin. */
  readonly trail: Trail;
  /** A time as `toISOString` writes it. */
  isoOf(time: Date): string;
  /** What changes add that add anything, checked; `undefined` for those that do something else. */
  additionOf(change: EventChange): AddedProperties | undefined;
  /** Some properties with others behind them. */
  join(some: AddedProperties | undefined, more: AddedProperties): AddedProperties;
}

/**
 * An event on its way through a chain. There are thousands of them at a time, each for a moment: what
 * few need is made when it is asked for, and what they have in common is shared.
 */
export class EventUnderWay implements GivenEvent, WriteOwner {
  readonly entry: LoggedEvent;
  /** How deep it was captured by transformations itself. */
  readonly hops: number;
  trail: Trail;
  /** As the stage is given it that works on it. */
  line = "";
  /** The stage that works on it. */
  stage: Stage | undefined;
  captured: readonly CapturedEvent[] = NONE;
  /** What its transformations want to be called for later, once it is durable. */
  jobs: readonly AskedJob[] = NONE;
  /** Whether jobs went to the log with it. */
  hasAsked = false;
  /** `released` once what became of it is durable. */
  ended: WriteOwner["ended"];
  counts: Count | undefined;
  /** What stages counted themselves, until it is on its way to the disk. */
  own: readonly OwnCount[] = NONE;
  /** Set where a run ended before it had passed all of its chain. */
  isLeft = false;
  /** What it has to pass where it goes on with another run than it began with; all of that one's otherwise. */
  chain: readonly Stage[] | undefined;
  /** Versions that gave it another uuid, in order. */
  #renamedBy: readonly string[] = NONE;
  /** Who dropped it. */
  droppedBy: Stage | undefined;
  readonly #siteUrl: string;
  /** Without what senders say of transformations themselves, which is not believed. */
  readonly #honest: CapturedEvent;
  #headText: string;
  #propertiesText: string;
  /** What stands behind its properties: its place, and what transformations have added. */
  #added: AddedProperties | undefined;
  /** As its next transformation sees it, but for what was added and what is told of its trail. */
  #event: PluginEvent | undefined;
  /** Whether its properties are those of its entry, with nothing but more behind them. */
  #isOwn: boolean;

  constructor(entry: LoggedEvent, { trail, siteUrl, isoOf }: LaneMemory) {
    const { event, propertiesText, added } = entry;
    const honest = withoutClaims(event);
    this.entry = entry;
    this.hops = hopsOf(event.properties);
    this.trail = trail;
    this.#siteUrl = siteUrl;
    this.#honest = honest;
    this.#isOwn = honest === event;
    this.#headText = headTextOf(honest, siteUrl, isoOf);
    // An event is one line of a text.
    this.#propertiesText =
      !this.#isOwn || propertiesText === undefined || propertiesText.includes("\n")
        ? encodeJson(honest.properties)
        : propertiesText;
    this.#added = added;
  }

  get event(): PluginEvent {
    this.#event ??= pluginEventOf(this.#honest, this.#siteUrl);
    return this.#event;
  }

  /** The uuid that transformations know it by. */
  get uuid(): string {
    return this.#event === undefined ? this.#honest.uuid : uuidOf(this.#event);
  }

  /** Is given to a stage. */
  enter(stage: Stage, { join }: LaneMemory): void {
    const { told } = this.trail;
    const behind = told ? join(this.#added, told) : this.#added;
    const text = this.#propertiesText;
    const properties = behind ? extendJsonText(text, behind.text) : text;
    this.line = `${this.#headText},"properties":${properties}}`;
    this.stage = stage;
  }

  /** Has been through the stage that it was given to. */
  leave(): void {
    this.line = "";
    this.stage = undefined;
  }

  /** Notes what a stage made of it; answers why that cannot be, or why the stage failed. */
  settle(
    stage: Stage,
    outcome: Exclude<TextOutcome, { kind: "not-run" }>,
    memory: LaneMemory,
  ): string | undefined {
    const { cpuMs } = outcome;
    if (outcome.kind === "drop") {
      this.droppedBy = stage;
      this.counts = { stage, kind: "dropped", cpuMs, before: this.counts };
      return undefined;
    }
    const change = outcome.kind === "keep" ? outcome.change : undefined;
    const fault =
      outcome.kind === "failed" ? outcome.reason : change && this.#take(stage, change, memory);
    const passing: Passing = fault !== undefined ? "failed" : change ? "changed" : "same";
    this.trail = this.trail.after(stage, passing);
    const kind = fault === undefined ? "out" : "failed";
    this.counts = { stage, kind, cpuMs, before: this.counts };
    return fault;
  }

  /** Changes it as a transformation has; answers why it may not. */
  #take(stage: Stage, change: EventChange, { additionOf, join }: LaneMemory): string | undefined {
    const more = additionOf(change);
    if (more !== undefined && !this.#hasAnyOf(more.properties)) {
      this.#added = join(this.#added, more);
      return undefined;
    }
    const { event } = this;
    const before = this.#added
      ? { ...event, properties: extendJson(propertiesOf(event), this.#added.properties) }
      : event;
    const taken = takeChange(before, change);
    if (taken.kind === "refused") return taken.reason;
    const { propertiesText } = taken;
    if (uuidOf(taken.event) !== uuidOf(event)) {
      this.#renamedBy = [...this.#renamedBy, stage.versionLabel];
    }
    // Without any other change the head is the same.
    if (propertiesText === undefined) this.#headText = headOf(taken.event);
    this.#propertiesText = propertiesText ?? encodeJson(ownValue(taken.event, "properties"));
    this.#event = taken.event;
    this.#added = undefined;
    this.#isOwn = false;
    return undefined;
  }

  #hasAnyOf(names: JsonObject): boolean {
    const properties = this.#event ? propertiesOf(this.#event) : this.#honest.properties;
    const added = this.#added?.properties;
    for (const name in names) {
      if (Object.hasOwn(properties, name)) return true;
      if (added !== undefined && Object.hasOwn(added, name)) return true;
    }
    return false;
  }

  /** What became of it in the whole chain. */
  outcome({ join }: LaneMemory): StepOutcome {
    const captured = this.captured.length === 0 ? undefined : { captured: this.captured };
    if (this.droppedBy) {
      const reason = "The transformation answered nothing for it.";
      return { kind: "drop", by: this.droppedBy.versionLabel, reason, ...captured };
    }
    const { event } = this.entry;
    const { told, changedBy } = this.trail;
    if (!told) return { kind: "keep", event, ...captured };
    const added = join(this.#added, told);
    if (this.#isOwn) return { kind: "keep", event, added, changedBy, ...captured };
    const changed = capturedEventOf(event, this.event);
    const propertiesText = this.#propertiesText;
    const renamedBy = this.#renamedBy.length > 0 ? this.#renamedBy : undefined;
    return {
      kind: "keep",
      event: changed,
      propertiesText,
      added,
      changedBy,
      renamedBy,
      ...captured,
    };
  }
}

const NONE: readonly never[] = Object.freeze([]);

function propertiesOf(event: PluginEvent): JsonObject {
  return ownValue(event, "properties") as JsonObject;
}

function headOf(event: PluginEvent): string {
  const { properties: _, ...head } = event;
  return encodeJson(head).slice(0, -1);
}

/** An event without what its sender says of transformations. */
export function withoutClaims(event: CapturedEvent): CapturedEvent {
  const { properties } = event;
  if (!CLAIMS.some((name) => Object.hasOwn(properties, name))) return event;
  const honest: JsonObject = Object.fromEntries(
    Object.entries(properties).filter(([name]) => !CLAIMS.includes(name)),
  );
  return { ...event, properties: honest };
}

const CLAIMS = ["$plugins_succeeded", "$plugins_failed", "$plugins_deferred"];

/** The uuid of an event as a transformation sees it. */
export function uuidOf(event: PluginEvent): string {
  const uuid = ownValue(event, "uuid");
  return typeof uuid === "string" ? uuid : "";
}

/**
 * Texts up to so long are remembered, and so many: what is longer hardly comes again, and what is made of
 * many different events would grow without end.
 */
const MAX_KNOWN_CHARS = 1000;
const MAX_KNOWN = 2000;

/** The memory of a lane whose events pass the same stages. */
export function createLaneMemory(siteUrl: string): LaneMemory {
  const trails = createTrails(MAX_KNOWN);
  const additions = new Map<EventChange, AddedProperties | undefined>();
  const joins = new Map<AddedProperties, Map<AddedProperties, AddedProperties>>();
  let joined = 0;
  return {
    siteUrl,
    get trail() {
      return trails.begin();
    },
    isoOf: createIsoWriter(),
    additionOf(change) {
      const text = change.kind === "parts" ? change.addedText : undefined;
      if (text === undefined || text.length > MAX_KNOWN_CHARS) return additionOf(change);
      if (additions.has(change)) return additions.get(change);
      const addition = additionOf(change);
      if (additions.size >= MAX_KNOWN) additions.clear();
      additions.set(change, addition);
      return addition;
    },
    join(some, more) {
      if (some === undefined) return more;
      if (some.text.length + more.text.length > MAX_KNOWN_CHARS) return addedToo(some, more);
      const known = joins.get(some)?.get(more);
      if (known) return known;
      const both = addedToo(some, more);
      if (joined >= MAX_KNOWN) {
        joins.clear();
        joined = 0;
      }
      const ofSome = joins.get(some) ?? new Map<AddedProperties, AddedProperties>();
      joins.set(some, ofSome.set(more, both));
      joined++;
      return both;
    },
  };
}
