import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createTrails, type Passing } from "./trail.ts";

const stages = Array.from({ length: 6 }, (_, n) => ({
  configId: n + 1,
  label: `S${n} (${n})`,
  versionLabel: `S${n} (${n}) v1`,
}));
const passings = fc.array(fc.constantFrom<Passing>("same", "changed", "failed"), { maxLength: 6 });

describe("trails", () => {
  it("tell what an event has passed and how, also once others have begun anew", () => {
    fc.assert(
      fc.property(
        fc.array(passings, { maxLength: 40 }),
        fc.integer({ min: 0, max: 30 }),
        (ways, most) => {
          const trails = createTrails(most);
          const begun = ways.map(() => trails.begin());
          for (const [index, way] of ways.entries()) {
            let trail = index % 2 === 0 ? trails.begin() : begun[index];
            for (const [at, passing] of way.entries()) {
              const stage = stages[at];
              if (stage) trail = trail?.after(stage, passing);
            }
            const labels = (isWanted: (passing: Passing) => boolean) =>
              way.flatMap((passing, at) => (isWanted(passing) ? [`S${at} (${at})`] : []));
            const told = {
              $plugins_succeeded: labels((passing) => passing !== "failed"),
              $plugins_failed: labels((passing) => passing === "failed"),
            };
            expect(trail?.told?.properties).toEqual(way.length === 0 ? undefined : told);
            const changed = labels((passing) => passing === "changed");
            expect(trail?.changedBy).toEqual(changed.map((label) => `${label} v1`));
            for (const { configId } of stages) {
              expect(trail?.hasPassed(configId)).toBe(configId <= way.length);
            }
          }
        },
      ),
    );
  });

  it("are shared by events that pass the same, up to so many that grow from a beginning", () => {
    const trails = createTrails(100);
    const pass = (number: number) => {
      let trail = trails.begin();
      for (const [at, stage] of stages.entries()) {
        trail = trail.after(stage, (number >> at) % 2 === 0 ? "same" : "changed");
      }
      return trail;
    };
    const first = trails.begin();
    expect(pass(5)).toBe(pass(5));
    for (let number = 0; number < 64; number++) pass(number);
    expect(trails.begin()).not.toBe(first);
    expect(pass(5)).toBe(pass(5));
  });
});
