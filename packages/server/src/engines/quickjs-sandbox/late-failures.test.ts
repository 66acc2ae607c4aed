import type { Message } from "esbuild";
import { describe, expect, it } from "vitest";
import { deferFailures } from "./late-failures.ts";

/** What the bundler says of each place of the form `x =` or `x }`, in bytes. */
function messagesOf(file: string, text: string): Message[] {
  return text.split("\n").flatMap((lineText, index) =>
    [...lineText.matchAll(/\bx(?= [=}])/g)].map((match) => ({
      id: "",
      pluginName: "",
      text: 'Cannot assign to "x" because it is a constant',
      location: {
        file,
        namespace: "source",
        line: index + 1,
        column: Buffer.byteLength(lineText.slice(0, match.index)),
        length: 1,
        lineText,
        suggestion: "",
      },
      notes: [],
      detail: undefined,
    })),
  );
}

const placeOf = ({ location }: Message) =>
  location === null ? undefined : { file: location.file, line: location.line };

function defer(text: string, isShorthand = false) {
  return deferFailures(
    { "a.js": text, "b.js": "" },
    messagesOf("a.js", text),
    placeOf,
    isShorthand,
  );
}

describe("assignments to constants that are deferred", () => {
  it("[TS-17] are all written anew, in lines with other characters as well", () => {
    expect(defer("ü; x = 1; /* ü */ x = 2;\n\nx = 3")).toEqual({
      "a.js":
        "ü; __sandbox_constant(x).value = 1; /* ü */ __sandbox_constant(x).value = 2;\n\n__sandbox_constant(x).value = 3",
      "b.js": "",
    });
    expect(defer("nothing")).toBeNull();
  });

  it("[TS-17] are written as members of patterns only where braces are around them", () => {
    expect(
      defer("({ x } = y); ({ a, x } = y); f(1, x = 2); [{ a: [1] }, x = 3]", true),
    ).toMatchObject({
      "a.js":
        "({ x: __sandbox_constant(x).value } = y); ({ a, x: __sandbox_constant(x).value } = y); f(1, __sandbox_constant(x).value = 2); [{ a: [1] }, __sandbox_constant(x).value = 3]",
    });
  });

  it("[TS-17] cost no more than their files are long: many in a long one come to an end", () => {
    const count = 100_000;
    const text = `${"x = 1;\n".repeat(count)}${"// text\n".repeat(500_000)}`;
    const deferred = deferFailures({ "a.js": text }, messagesOf("a.js", text), placeOf, false);
    expect(deferred?.["a.js"]?.match(/\.value = 1;/g)).toHaveLength(count);
  });
});
