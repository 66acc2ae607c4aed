import { Type } from "typebox";
import { describe, expect, it } from "vitest";
import type { Refusal } from "./errors.ts";
import { validatorCompiler } from "./validate-body.ts";
import { AnyObject, maxChars, Nullable } from "./wire-schemas.ts";

const schema = Type.Object({
  name: Type.String({ maxLength: 10 }),
  ids: Type.Optional(Nullable(Type.Array(Type.Union([Type.Integer(), Type.String()])))),
  kind: Type.Optional(Type.Enum(["a", "b"])),
  share: Type.Number(),
  anything: Type.Optional(Type.Unknown()),
  filters: Type.Optional(Nullable(AnyObject, maxChars(1_000_000))),
});
const validate = validatorCompiler({ schema, httpPart: "body", method: "POST", url: "/" });
const refusalOf = (body: unknown) =>
  (validate(body) as { error?: Refusal }).error?.body ?? "no refusal";

describe("the first fault of a body", () => {
  it.each([
    [[], "invalid_input", null],
    [{}, "required", "name"],
    [{ ids: {} }, "required", "name"],
    [{ name: "a", ids: {} }, "invalid_input", "ids"],
    [{ name: "a", ids: [1, "x", {}], kind: "c" }, "invalid_input", "ids__2"],
    [{ name: "a", kind: "c" }, "invalid_choice", "kind"],
    [{ name: "a", kind: "b" }, "required", "share"],
    [{ name: "far too long", share: "x" }, "max_length", "name"],
    [{ name: null, share: "x" }, "null", "name"],
  ])("[AC-72] is told in the order in which the fields are declared: %j", (body, code, attr) => {
    expect(refusalOf(body)).toMatchObject({ code, attr });
  });

  it("[AC-72] is the last that is looked at in a list", () => {
    let looks = 0;
    const ids = new Proxy(Array(50_000).fill({}), {
      get(items, key) {
        if (typeof key === "string" && /^\d+$/.test(key)) looks += 1;
        return Reflect.get(items, key);
      },
    });
    expect(refusalOf({ name: "a", ids, share: 1 })).toMatchObject({ attr: "ids__0" });
    expect(looks).toBeLessThan(20);
  });

  it("[AC-72] shows no more than the beginning of what was sent", () => {
    const { detail } = refusalOf({ name: "a", kind: "x".repeat(2_000_000) }) as { detail: string };
    expect(detail.length).toBeLessThan(11_000);
  });
});

describe("a field", () => {
  const long = "a".repeat(100_000);

  it.each([
    ["text", long],
    ["lists", Array(30_000).fill(1)],
    ["objects", { in: [{ it: long }] }],
    ["names", { [long]: 1 }],
  ])("[AC-73] has 100,000 characters at most, also of %s", (_, anything) => {
    expect(refusalOf({ name: "a", share: 1, anything })).toEqual({
      type: "validation_error",
      code: "max_length",
      detail: "Ensure this field has no more than 100000 characters.",
      attr: "anything",
    });
  });

  it("[AC-73] may have more where its schema says so", () => {
    const many = (count: number) => ({ list: Array(count).fill(long) });
    expect(refusalOf({ name: "a", share: 1, filters: many(9) })).toBe("no refusal");
    expect(refusalOf({ name: "a", share: 1, filters: many(10) })).toMatchObject({
      code: "max_length",
      detail: "Ensure this field has no more than 1000000 characters.",
      attr: "filters",
    });
  });

  it("[AC-73] that nobody knows may be as long as it likes", () => {
    expect(refusalOf({ name: "a", share: 1, other: `${long}${long}` })).toBe("no refusal");
    const short = { name: "a", share: 1, anything: "a".repeat(99_990) };
    expect(refusalOf(short)).toBe("no refusal");
  });
});
