import { describe, expect, it } from "vitest";
import { isRefusedForMerging } from "./refused-ids.ts";

describe("ids that no merge takes", () => {
  it.each([
    "anonymous",
    "Guest",
    "DISTINCT_ID",
    "distinctId",
    "id",
    "not_authenticated",
    "Email",
    "undefined",
    "TRUE",
    "false",
    "[object Object]",
    "NaN",
    "None",
    "none",
    "null",
    "0",
    "",
    "   ",
    '"undefined"',
    "'Guest'",
    '""',
    "'0'",
  ])("[PE-9] include %j", (id) => {
    expect(isRefusedForMerging(id)).toBe(true);
  });

  it.each(["ada", "nan", "NULL", "NONE", "[object object]", "00", "guest-1", "1", "constructor"])(
    "[PE-9] do not include %j",
    (id) => {
      expect(isRefusedForMerging(id)).toBe(false);
    },
  );
});
