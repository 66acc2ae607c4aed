import { expect, it } from "vitest";
import { captureFrom } from "./capture-from-transformation.ts";

const at = new Date("2026-03-01T10:00:00.000Z");
const timeOf = (timestamp: string | null) => {
  const made = captureFrom(
    { projectId: 1, configId: 2, name: "Imports" },
    { event: "row", distinctId: "ann", properties: {}, timestamp },
    { hops: 0, uuid: "0190c0de-0000-7000-8000-000000000001", index: 0, isBounded: true, at },
  );
  if ("refusal" in made) throw new Error(made.refusal);
  return made.timestamp.toISOString();
};

it.each([
  [null, at.toISOString()],
  ["2023-11-14T22:13:20Z", "2023-11-14T22:13:20.000Z"],
  ["1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"],
  ["2026-03-02T08:00:00Z", "2026-03-02T08:00:00.000Z"],
  ["2026-03-02T10:00:00Z", at.toISOString()],
  ["+275760-09-13T00:00:00.000Z", at.toISOString()],
  ["yesterday", at.toISOString()],
])("[TP-57] an event that is captured as of %s happened at %s", (timestamp, happened) => {
  expect(timeOf(timestamp)).toBe(happened);
});
