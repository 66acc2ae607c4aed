import { describe, expect, test } from "vitest";
import { chosenIdsFirst, personName } from "./person-name.ts";

const MADE_UP = "0192a000-0000-7000-8000-000000000000";
const nameOf = (properties: Record<string, string | number | null>, distinctIds: string[] = []) =>
  personName({ uuid: "u", properties, distinctIds });

describe("the name of a person", () => {
  test("[PM-2] is the mail address, then a name, then a user name", () => {
    expect(nameOf({ username: "al", name: "Ada L.", email: "ada@example.org" })).toBe(
      "ada@example.org",
    );
    expect(nameOf({ username: "al", name: "Ada L." })).toBe("Ada L.");
    expect(nameOf({ UserName: "al", plan: "pro" })).toBe("al");
  });

  test("[PM-2] is no blank text and nothing but text", () => {
    expect(nameOf({ email: " ", Email: 5, $email: null, Name: "Ada" }, ["ada"])).toBe("Ada");
  });

  test("[PM-2] is an id that somebody chose where no property tells, and any id at last", () => {
    expect(nameOf({}, [MADE_UP, "ada", "b"])).toBe("ada");
    expect(nameOf({}, [MADE_UP])).toBe(MADE_UP);
    expect(nameOf({})).toBe("u");
    expect(nameOf(Object.create({ email: "inherited" }), ["ada"])).toBe("ada");
  });
});

test("[PM-2] ids that SDKs made up come last, in their order", () => {
  expect(chosenIdsFirst(["a-b-c-d-e", "z", MADE_UP, "A-B-C-D-E"])).toEqual([
    "z",
    "A-B-C-D-E",
    "a-b-c-d-e",
    MADE_UP,
  ]);
});
