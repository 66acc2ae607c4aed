import type { CapturedEvent } from "../events/event.ts";
import { effectiveTimeMs, type PersonUpdate, type PersonWarning } from "./person-update.ts";
import { asksForAnything } from "./property-changes.ts";
import { PropertySheet } from "./property-sheet.ts";

/** A project has at most this many group types. */
const MAX_GROUP_TYPES = 5;

/** A person as stored. Properties are read when first needed. */
export interface StoredPerson {
  readonly id: number;
  readonly uuid: string;
  readonly createdAt: Date;
  readonly isIdentified: boolean;
  /** Whether the times of the properties are stored apart from the person's row. */
  readonly hasTimesApart: boolean;
  readonly readProperties: () => PropertySheet;
  /** Length of the properties as JSON text, roughly. */
  readonly textLength: number;
}

/** What became of an event's person. */
export interface AppliedEvent {
  readonly personId: string;
  readonly merged: { readonly from: string; readonly into: string } | null;
  readonly warnings: readonly PersonWarning[];
}

/** What nobody has; never changed. */
const NO_HASH_KEYS: ReadonlyMap<string, string> = new Map();

/** A person while events are applied; may be kept, as stored then, for those that follow. */
export class LedgerPerson {
  /** The row that the person is stored under; `null` for one who is not stored. */
  row: number | null;
  readonly uuid: string;
  createdAt: Date;
  isIdentified: boolean;
  /** True once anything that is stored with the person itself has changed. */
  isChanged: boolean;
  /** True once the time of creation is another one than what is stored. */
  hasNewCreation = false;
  /** True once the person is identified, and was not before. */
  isNewlyIdentified = false;
  /** Whether times of the properties are stored apart that count instead of those of the row. */
  hasTimesApart: boolean;
  /** True once anything has changed at all: the ledger's `touched` has the person then. */
  isTouched = false;
  /** The person this one became part of. */
  mergedInto: LedgerPerson | null = null;
  #newDistinctIds: string[] = [];
  #newHashKeys = NO_HASH_KEYS as Map<string, string>;
  #hashKeys = NO_HASH_KEYS as Map<string, string>;
  #stored: StoredPerson | null;
  #sheet: PropertySheet | undefined;

  constructor(stored: StoredPerson | null, uuid: string, createdAt: Date) {
    this.row = stored?.id ?? null;
    this.uuid = uuid;
    this.createdAt = createdAt;
    this.isIdentified = stored?.isIdentified ?? false;
    this.hasTimesApart = stored?.hasTimesApart ?? false;
    this.isChanged = stored === null;
    this.#stored = stored;
  }

  /** Ids that this person got, and that no stored person had before. */
  get newDistinctIds(): readonly string[] {
    return this.#newDistinctIds;
  }

  /** Hash keys by flag key (flag-evaluation 16) that this person got and that are not stored yet. */
  get newHashKeys(): ReadonlyMap<string, string> {
    return this.#newHashKeys;
  }

  /** The person this one is part of after all merges: normally itself. */
  get survivor(): LedgerPerson {
    let survivor: LedgerPerson = this;
    while (survivor.mergedInto) survivor = survivor.mergedInto;
    return survivor;
  }

  get sheet(): PropertySheet {
    this.#sheet ??= this.#stored ? this.#stored.readProperties() : new PropertySheet();
    return this.#sheet;
  }

  /** Length of the properties as JSON text, roughly. */
  get textLength(): number {
    return this.#sheet?.textLength ?? this.#stored?.textLength ?? 0;
  }

  /** Whether nothing that is stored with a changed person is new but times of its properties. */
  get hasNewTimesOnly(): boolean {
    return !this.hasNewCreation && !this.isNewlyIdentified && !this.sheet.hasNewValues;
  }

  /** The person as it is now is stored under its row. */
  settle(): void {
    this.#sheet?.settle();
    this.isNewlyIdentified = false;
    this.isChanged = false;
    this.hasNewCreation = false;
    this.isTouched = false;
    if (this.#newDistinctIds.length > 0) this.#newDistinctIds = [];
    this.#newHashKeys = NO_HASH_KEYS as Map<string, string>;
  }

  attach(distinctId: string): void {
    this.#newDistinctIds.push(distinctId);
  }

  /** The stored hash keys; those of every person that events link must be admitted. */
  admitHashKeys(hashKeys: ReadonlyMap<string, string>): void {
    this.#hashKeys = new Map(hashKeys);
  }

  /** Gives a hash key for a flag that has none yet. */
  offerHashKey(flagKey: string, hashKey: string): void {
    if (this.#hashKeys.has(flagKey)) return;
    if (this.#hashKeys === NO_HASH_KEYS) this.#hashKeys = new Map();
    if (this.#newHashKeys === NO_HASH_KEYS) this.#newHashKeys = new Map();
    this.#hashKeys.set(flagKey, hashKey);
    this.#newHashKeys.set(flagKey, hashKey);
  }

  /** Ids and hash keys of a person who becomes part of this one. */
  takeOver(other: LedgerPerson): void {
    this.#newDistinctIds.push(...other.#newDistinctIds.splice(0));
    for (const [flagKey, hashKey] of other.#hashKeys) this.offerHashKey(flagKey, hashKey);
    other.mergedInto = this;
  }
}

/** A group while events are applied. */
export interface LedgerGroup {
  readonly typeIndex: number;
  readonly key: string;
  readonly createdAt: Date;
  readonly sheet: PropertySheet;
  isChanged: boolean;
}

/** What most events end with. */
const NO_WARNINGS: readonly PersonWarning[] = Object.freeze([]);

/**
 * The persons and groups of one project while a run of events is applied to them. Everything that
 * the events touch and that is stored must be found or admitted; what changed is read off afterwards.
 */
export class PersonLedger {
  readonly #uuidOf: (distinctId: string) => string;
  readonly #findStored: (distinctId: string) => LedgerPerson | undefined;
  readonly #continuityFlagKeys: readonly string[];
  readonly #attached = new Map<string, LedgerPerson>();
  readonly #touched: LedgerPerson[] = [];
  readonly #groupTypes = new Map<string, number>();
  readonly #newGroupTypes: { index: number; name: string }[] = [];
  readonly #groups = new Map<string, LedgerGroup>();

  constructor(options: {
    /** UUID of the person first seen under an id; the same for the same id, always. */
    readonly uuidOf: (distinctId: string) => string;
    /** Who had an id before the events: always the same person for the same row. */
    readonly findStored: (distinctId: string) => LedgerPerson | undefined;
    /** Keys of the flags that keep their answer across identification. */
    readonly continuityFlagKeys: readonly string[];
    readonly groupTypes: readonly { readonly index: number; readonly name: string }[];
  }) {
    this.#uuidOf = options.uuidOf;
    this.#findStored = options.findStored;
    this.#continuityFlagKeys = options.continuityFlagKeys;
    for (const { index, name } of options.groupTypes) this.#groupTypes.set(name, index);
  }

  admitGroup(group: Omit<LedgerGroup, "isChanged">): void {
    this.#groups.set(groupName(group.typeIndex, group.key), { ...group, isChanged: false });
  }

  /** Everybody created or changed, those merged away included, in order of appearance. */
  get touched(): readonly LedgerPerson[] {
    return this.#touched;
  }

  get newGroupTypes(): readonly { readonly index: number; readonly name: string }[] {
    return this.#newGroupTypes;
  }

  get groups(): Iterable<LedgerGroup> {
    return this.#groups.values();
  }

  /** UUID of the person of an id, deterministic for an id nobody has (personless events). */
  personId(distinctId: string): string {
    return this.#find(distinctId)?.uuid ?? this.#uuidOf(distinctId);
  }

  /** Applies one event's update. */
  apply(event: CapturedEvent, update: PersonUpdate): AppliedEvent {
    const atMs = effectiveTimeMs(event);
    let { warnings } = update;
    let merged: AppliedEvent["merged"] = null;
    if (update.link || update.group || update.groupTypes.length > 0) {
      const more = [...warnings];
      for (const name of update.groupTypes) {
        if (this.#groupTypeIndex(name) === undefined) more.push("group_type_limit_reached");
      }
      if (update.group) this.#applyToGroup(update.group, atMs, more);
      if (update.link) merged = this.#link(update.distinctId, update.link, atMs, more);
      warnings = more;
    }
    if (warnings.length === 0) warnings = NO_WARNINGS;
    if (!update.keepsPerson) {
      return { personId: this.personId(update.distinctId), merged, warnings };
    }
    const person = this.#find(update.distinctId) ?? this.#create(update.distinctId, atMs);
    const { changes } = update;
    if (asksForAnything(changes)) {
      const outcome = person.sheet.apply(changes, atMs);
      if (outcome === "changed") this.#change(person);
      if (outcome === "too-long") warnings = [...warnings, "person_properties_size_violation"];
    }
    return { personId: person.uuid, merged, warnings };
  }

  #find(distinctId: string): LedgerPerson | undefined {
    const person =
      (this.#attached.size > 0 ? this.#attached.get(distinctId) : undefined) ??
      this.#findStored(distinctId);
    return person?.mergedInto ? person.survivor : person;
  }

  #touch(person: LedgerPerson): void {
    if (person.isTouched) return;
    person.isTouched = true;
    this.#touched.push(person);
  }

  #change(person: LedgerPerson): void {
    person.isChanged = true;
    this.#touch(person);
  }

  #create(distinctId: string, atMs: number): LedgerPerson {
    const person = new LedgerPerson(null, this.#uuidOf(distinctId), new Date(atMs));
    this.#attach(distinctId, person);
    return person;
  }

  #attach(distinctId: string, person: LedgerPerson): void {
    person.attach(distinctId);
    this.#attached.set(distinctId, person);
    this.#touch(person);
  }

  #link(
    distinctId: string,
    link: NonNullable<PersonUpdate["link"]>,
    atMs: number,
    warnings: PersonWarning[],
  ): AppliedEvent["merged"] {
    const other = this.#find(link.otherId);
    const known = this.#find(distinctId);
    if (other !== undefined && other === known) return null;
    if (other && known && other.isIdentified && !link.evenIfIdentified) {
      warnings.push("cannot_merge_already_identified");
      return null;
    }
    const survivor = known ?? other ?? this.#create(distinctId, atMs);
    let from: string;
    if (other && other !== survivor) {
      from = other.uuid;
      this.#merge(other, survivor, warnings);
    } else {
      // Nobody is stored under one of the ids; personless events of it may be.
      const newId = other ? distinctId : link.otherId;
      from = this.#uuidOf(newId);
      this.#attach(newId, survivor);
    }
    this.#touch(survivor);
    if (!survivor.isIdentified) {
      survivor.isIdentified = true;
      survivor.isNewlyIdentified = true;
      survivor.isChanged = true;
    }
    const hashKey = link.isIdentification || (other && !known) ? link.otherId : distinctId;
    for (const flagKey of this.#continuityFlagKeys) survivor.offerHashKey(flagKey, hashKey);
    return from === survivor.uuid ? null : { from, into: survivor.uuid };
  }

  #merge(other: LedgerPerson, survivor: LedgerPerson, warnings: PersonWarning[]): void {
    const outcome = survivor.sheet.absorb(other.sheet);
    if (outcome === "too-long") warnings.push("person_properties_size_violation");
    if (other.createdAt < survivor.createdAt) {
      survivor.createdAt = other.createdAt;
      survivor.hasNewCreation = true;
    }
    this.#touch(other);
    this.#change(survivor);
    survivor.takeOver(other);
  }

  #groupTypeIndex(name: string): number | undefined {
    const known = this.#groupTypes.get(name);
    if (known !== undefined || this.#groupTypes.size >= MAX_GROUP_TYPES) return known;
    const taken = new Set(this.#groupTypes.values());
    let index = 0;
    while (taken.has(index)) index++;
    this.#groupTypes.set(name, index);
    this.#newGroupTypes.push({ index, name });
    return index;
  }

  #applyToGroup(
    { type, key, changes }: NonNullable<PersonUpdate["group"]>,
    atMs: number,
    warnings: PersonWarning[],
  ): void {
    const typeIndex = this.#groupTypeIndex(type);
    if (typeIndex === undefined) return;
    const name = groupName(typeIndex, key);
    let group = this.#groups.get(name);
    if (!group) {
      group = {
        typeIndex,
        key,
        createdAt: new Date(atMs),
        sheet: new PropertySheet(),
        isChanged: true,
      };
      this.#groups.set(name, group);
    }
    const outcome = group.sheet.apply(changes, atMs);
    if (outcome === "changed") group.isChanged = true;
    if (outcome === "too-long") warnings.push("group_properties_size_violation");
  }
}

const groupName = (typeIndex: number, key: string) => `${typeIndex} ${key}`;
