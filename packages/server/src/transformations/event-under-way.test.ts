import type { AddedProperties } from "@hedgerow/core/events/event";
import type { EventChange } from "@hedgerow/core/transformations/plugin-event";
import { describe, expect, it } from "vitest";
import { createLaneMemory } from "./event-under-way.ts";

function addingText(text: string): EventChange {
  const set = { text };
  const rest = { fields: {}, removedFields: [], removed: [] };
  return { kind: "parts", ...rest, set, addedText: JSON.stringify(set) };
}

function added(name: string, length: number): AddedProperties {
  const properties = { [name]: "x".repeat(length) };
  return { properties, text: JSON.stringify(properties) };
}

describe("what is remembered of the events of a lane", () => {
  it("is what short additions come to, alone and behind others", () => {
    const memory = createLaneMemory("http://localhost");
    const change = addingText("short");
    expect(memory.additionOf(change)).toMatchObject({ properties: { text: "short" } });
    expect(memory.additionOf(change)).toBe(memory.additionOf(change));
    const [some, more] = [added("a", 10), added("b", 10)];
    expect(memory.join(some, more)).toMatchObject({
      properties: { ...some.properties, ...more.properties },
      text: JSON.stringify({ ...some.properties, ...more.properties }),
    });
    expect(memory.join(some, more)).toBe(memory.join(some, more));
  });

  it("is nothing that is long, and not more and more", () => {
    const memory = createLaneMemory("http://localhost");
    const long = addingText("x".repeat(200_000));
    expect(memory.additionOf(long)).toEqual(memory.additionOf(long));
    expect(memory.additionOf(long)).not.toBe(memory.additionOf(long));
    const [some, more] = [added("a", 10), added("b", 2_000)];
    expect(memory.join(some, more)).toEqual(memory.join(some, more));
    expect(memory.join(some, more)).not.toBe(memory.join(some, more));
    const change = addingText("short");
    const first = memory.additionOf(change);
    const joined = memory.join(some, added("c", 10));
    for (let n = 0; n < 5_000; n++) {
      memory.additionOf(addingText(`${n}`));
      memory.join(some, added(`n${n}`, 5));
    }
    expect(memory.additionOf(change)).not.toBe(first);
    expect(memory.join(some, added("c", 10))).not.toBe(joined);
  });
});
