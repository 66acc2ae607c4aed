import {
  defineProperty,
  deleteProperty,
  getOwnPropertyDescriptor,
  isArray,
  isExtensible,
  isFrozen,
  keysOf,
  newList,
  ownKeys,
  put,
  without,
} from "./intrinsics.ts";

/** True once `setupPlugin` has ended. */
let isUnderWay = false;
/** Called before an event or a call begins: puts back what has been changed; null where nothing has. */
export let restoreSettings: (() => void) | null = null;

/** An object of the settings, what it was before it was changed under way, and what stands for it to code. */
interface Guarded {
  readonly target: object;
  kept: Record<PropertyKey, PropertyDescriptor> | null;
}

/** A member of `meta` that was put in another's place. */
interface ChangedMember {
  readonly key: PropertyKey;
  readonly before: PropertyDescriptor | undefined;
}

const guardedBy = new WeakMap<object, Guarded>();
/** What was changed since the last event or call began. */
let changedSettings = newList<Guarded>();
let changedMembers = newList<ChangedMember>();
/** What the methods of a transformation are given, and what stands behind it. */
export let meta: Record<string, unknown> = {};
let metaTarget: Record<string, unknown> = {};

/** `meta`, of the members that come with it. */
export function setMeta(members: Record<string, unknown>): void {
  meta = guardMeta(members);
}

/** What is changed from now on is gone with the next event or call. */
export function guardChanges(): void {
  isUnderWay = true;
}

/**
 * The settings, whose changes are gone with the next event or call: PostHog keeps none. That holds for
 * objects that they were given with as well. What `setupPlugin` changes of them stays, and what
 * objects hold that code has put there itself.
 */
export function settingsOf<T extends object>(settings: T): T {
  const target = (isArray(settings) ? [] : {}) as Record<string, unknown>;
  const keys = keysOf(settings);
  for (let at = 0; at < keys.length; at += 1) {
    const key = keys[at] as string;
    const value = (settings as Record<string, unknown>)[key];
    const isObject = typeof value === "object" && value !== null;
    put(target, key, isObject ? settingsOf(value) : value, true);
  }
  return guard(target) as T;
}

function guard(target: object): object {
  const guarded: Guarded = { target, kept: null };
  const keep = () => {
    if (!isUnderWay || guarded.kept !== null || isFrozen(target)) return;
    guarded.kept = propertiesOf(target);
    changedSettings[changedSettings.length] = guarded;
    restoreSettings = restore;
  };
  const proxy = new Proxy(target, guardOf(keep));
  guardedBy.set(proxy, guarded);
  return proxy;
}

/** Traps that are told of a key before it changes, or of none where any may. */
function guardOf(tell: (key?: PropertyKey) => void): ProxyHandler<object> {
  return without({
    defineProperty(target, key, property) {
      tell(key);
      return defineProperty(target, key, without(property));
    },
    deleteProperty(target, key) {
      tell(key);
      return deleteProperty(target, key);
    },
    preventExtensions(target) {
      tell();
      return Reflect.preventExtensions(target);
    },
  } as ProxyHandler<object>);
}

/** What is of the transformation itself: it stays whatever is put in its place. */
const OWN_MEMBER = "global";

/**
 * `meta`, whose members that come with it are there again with the next event or call whatever was put
 * in their place, but for `global`. What code adds to it stays.
 */
function guardMeta(members: Record<string, unknown>): Record<string, unknown> {
  metaTarget = members;
  const given = without({}) as Record<PropertyKey, boolean>;
  const names = keysOf(members);
  for (let at = 0; at < names.length; at += 1) {
    const name = names[at] as string;
    given[name] = name !== OWN_MEMBER;
  }
  const keep = (key?: PropertyKey) => {
    if (!isUnderWay || key === undefined || !given[key]) return;
    for (let at = 0; at < changedMembers.length; at += 1) {
      if (changedMembers[at]?.key === key) return;
    }
    const before = getOwnPropertyDescriptor(members, key);
    changedMembers[changedMembers.length] = { key, before };
    restoreSettings = restore;
  };
  return new Proxy(members, guardOf(keep)) as Record<string, unknown>;
}

function propertiesOf(object: object): Record<PropertyKey, PropertyDescriptor> {
  const properties = without({}) as Record<PropertyKey, PropertyDescriptor>;
  const keys = ownKeys(object);
  for (let at = 0; at < keys.length; at += 1) {
    const key = keys[at] as PropertyKey;
    properties[key] = without(getOwnPropertyDescriptor(object, key) as PropertyDescriptor);
  }
  return properties;
}

/** Undoes what was changed of the settings. */
function restore(): void {
  restoreSettings = null;
  const members = changedMembers;
  const settings = changedSettings;
  changedMembers = newList();
  changedSettings = newList();
  try {
    let isBack = true;
    for (let at = 0; at < members.length; at += 1) {
      const { key, before } = members[at] as ChangedMember;
      if (before === undefined) deleteProperty(metaTarget, key);
      else if (!defineProperty(metaTarget, key, without(before))) isBack = false;
    }
    if (!isBack) replaceMeta(members);
    isBack = true;
    for (let at = 0; at < settings.length; at += 1) {
      const { target, kept } = settings[at] as Guarded;
      if (kept !== null && !putBack(target, kept)) isBack = false;
    }
    if (!isBack) rebuild();
  } catch {
    // Whoever changed what is shared here keeps its settings as they are.
  }
  for (let at = 0; at < settings.length; at += 1) (settings[at] as Guarded).kept = null;
}

/** Makes `meta` anew where a member was fixed that cannot be as it was. */
function replaceMeta(members: readonly ChangedMember[]): void {
  const properties = propertiesOf(metaTarget);
  for (let at = 0; at < members.length; at += 1) {
    const { key, before } = members[at] as ChangedMember;
    if (before !== undefined) properties[key] = without(before);
  }
  const target = {};
  const keys = ownKeys(properties);
  for (let at = 0; at < keys.length; at += 1) {
    const key = keys[at] as PropertyKey;
    const property = properties[key] as PropertyDescriptor;
    property.configurable = true;
    if ("value" in property) property.writable = true;
    defineProperty(target, key, property);
  }
  setMeta(target);
}

/** Makes settings anew that were frozen. */
function rebuild(): void {
  const config = madeAnew(metaTarget["config"]);
  if (!Reflect.set(metaTarget, "config", config)) {
    setMeta(Object.assign({}, metaTarget, { config }));
  }
}

/** The same with other objects behind it, as they were before they were changed. */
function madeAnew(value: unknown): unknown {
  const guarded = typeof value === "object" && value !== null ? guardedBy.get(value) : undefined;
  if (guarded === undefined) return value;
  const properties = guarded.kept ?? propertiesOf(guarded.target);
  const target = isArray(guarded.target) ? [] : {};
  const keys = ownKeys(properties);
  for (let at = 0; at < keys.length; at += 1) {
    const key = keys[at] as PropertyKey;
    const property = properties[key] as PropertyDescriptor;
    if ("value" in property) property.value = madeAnew(property.value);
    defineProperty(target, key, property);
  }
  return guard(target);
}

/** False where an object was fixed in a way that it cannot be as it was. */
function putBack(object: object, kept: Record<PropertyKey, PropertyDescriptor>): boolean {
  if (!isExtensible(object)) return false;
  let isBack = true;
  const now = ownKeys(object);
  for (let at = 0; at < now.length; at += 1) {
    const key = now[at] as PropertyKey;
    // That of a list cannot be deleted, and is set behind its items.
    if (key === "length" && isArray(object)) continue;
    if (!deleteProperty(object, key)) isBack = false;
  }
  const before = ownKeys(kept);
  for (let at = 0; at < before.length; at += 1) {
    const key = before[at] as PropertyKey;
    if (!defineProperty(object, key, kept[key] as PropertyDescriptor)) isBack = false;
  }
  return isBack;
}
