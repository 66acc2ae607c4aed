import fc from "fast-check";
import { expect, it } from "vitest";
import { createIsoWriter } from "./iso-times.ts";

it("writes times as Date does, one after the other", () => {
  const near = fc.tuple(
    fc.date({ noInvalidDate: true }),
    fc.array(fc.integer({ min: -100_000, max: 100_000 })),
  );
  fc.assert(
    fc.property(fc.array(near), (groups) => {
      const isoOf = createIsoWriter();
      const times = groups
        .flatMap(([first, offsets]) => [
          first,
          ...offsets.map((ms) => new Date(first.getTime() + ms)),
        ])
        .filter((time) => !Number.isNaN(time.getTime()));
      expect(times.map(isoOf)).toEqual(times.map((time) => time.toISOString()));
    }),
  );
});

it("refuses what is no time as Date does", () => {
  expect(() => createIsoWriter()(new Date(Number.NaN))).toThrow(RangeError);
});
