import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createPersonTally } from "./person-tally.ts";

test("[CO-12] a tally adds up like a map, whoever comes how often", () => {
  const few = fc.constantFrom(...Array.from({ length: 30 }, () => randomUUID()));
  const additions = fc.array(fc.tuple(fc.oneof(few, fc.uuid()), fc.integer({ min: 0, max: 9 })), {
    maxLength: 3000,
    size: "max",
  });
  fc.assert(
    fc.property(additions, fc.integer({ min: 1, max: 700 }), (added, runLength) => {
      const tally = createPersonTally();
      const model = new Map<string, number>();
      for (const [uuid, times] of added) {
        tally.add(uuid, times);
        if (times > 0) model.set(uuid, (model.get(uuid) ?? 0) + times);
      }
      expect(tally.size).toBe(model.size);
      for (const [uuid] of added) expect(tally.times(uuid)).toBe(model.get(uuid) ?? 0);
      expect(tally.times(randomUUID())).toBe(0);
      const runs = [...tally.uuids(runLength)];
      expect(runs.every((run) => run.length <= runLength)).toBe(true);
      expect(runs.flat().toSorted()).toEqual([...model.keys()].toSorted());
    }),
    { numRuns: 50 },
  );
});
