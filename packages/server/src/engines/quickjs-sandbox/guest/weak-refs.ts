import { apply, newList, put } from "./intrinsics.ts";

/** What references are to hold until what runs now has come to its end. */
let held = newList<object>();

/**
 * Gives code a `WeakRef` that holds what it refers to as long as the language says, and a little
 * longer: the engine lets go of it at once, V8 when it has time.
 */
export function giveWeakRefs(): void {
  const Native = WeakRef;
  const { deref } = Native.prototype;
  class Given extends Native<object> {
    constructor(target: object) {
      super(target);
      hold(target);
    }
    override deref(): object | undefined {
      const target = apply(deref, this, []) as object | undefined;
      if (target !== undefined) hold(target);
      return target;
    }
  }
  put(Given, "name", "WeakRef");
  put(globalThis, "WeakRef", Given);
}

function hold(target: object): void {
  held[held.length] = target;
}

/** What the host begins next finds what nobody else holds gone. */
export function letGo(): void {
  if (held.length > 0) held = newList();
}
