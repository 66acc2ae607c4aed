/**
 * What runs in the sandbox before a transformation: drives it, and gives it its globals. Made into
 * one text and evaluated inside of QuickJS; nothing of Node.js or of the platform exists there.
 * Transformations share this realm and may tamper with all of it, to nobody's harm but their own:
 * whoever answers the host calls trusts nothing that comes from here.
 *
 * All modules are evaluated before any foreign code, and nothing of them is evaluated later.
 */

import { settle } from "./bridge.ts";
import { invoke, setUp } from "./calls.ts";
import { describe, load, loaded } from "./exports.ts";
import { defineGlobals } from "./globals.ts";
import { scope } from "./intrinsics.ts";
import { completeLanguage } from "./language.ts";
import { accept, collect, leaveRun, startRun, work } from "./run.ts";
import { fire } from "./timers.ts";

completeLanguage();
defineGlobals();

/** What goes on beside a run: whatever settles by it is told one by one. */
const beside =
  <T>(goOn: (value: T) => void) =>
  (value: T): void => {
    leaveRun();
    goOn(value);
  };

// What the host calls (`virtual-machine.ts`).
scope["__guest"] = {
  load,
  loaded,
  describe,
  setUp,
  accept,
  startRun,
  collect,
  work,
  invoke: beside(invoke),
  settle: beside(settle),
  fire: beside(fire),
};
