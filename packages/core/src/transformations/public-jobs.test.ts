import fc from "fast-check";
import { expect, test } from "vitest";
import type { Json, JsonObject } from "../json.ts";
import { readJobPayload, secretPayloadKeys } from "./public-jobs.ts";

test("[TM-60] a payload takes the defaults of what it leaves out, and unknown fields stay", () => {
  const jobs = { sweep: { payload: { a: { type: "string", default: "x" }, b: {} } } };
  expect(readJobPayload(jobs, "sweep", { z: null })).toEqual({
    kind: "fit",
    payload: { z: null, a: "x" },
  });
  expect(readJobPayload(jobs, "other", { a: 5 })).toEqual({ kind: "fit", payload: { a: 5 } });
  expect(readJobPayload({}, "constructor", {})).toEqual({ kind: "fit", payload: {} });
});

test("[TM-60] fields are secret and required by whatever is true, as settings are", () => {
  const jobs = (value: Json) => ({ sweep: { payload: { a: { secret: value, required: value } } } });
  expect([...secretPayloadKeys(jobs("true"), "sweep")]).toEqual(["a"]);
  expect(readJobPayload(jobs(1), "sweep", {})).toMatchObject({ kind: "unfit", key: "a" });
  expect([...secretPayloadKeys(jobs(0), "sweep")]).toEqual([]);
  expect(readJobPayload(jobs(""), "sweep", {})).toMatchObject({ kind: "fit" });
});

test("[TM-60] anything may be declared and sent without harm", () => {
  const value = fc.jsonValue({ maxDepth: 3 });
  fc.assert(
    fc.property(value, fc.dictionary(fc.string(), value), (declared, payload) => {
      const read = readJobPayload({ job: declared as Json }, "job", payload as JsonObject);
      expect(["fit", "unfit"]).toContain(read.kind);
    }),
  );
});
