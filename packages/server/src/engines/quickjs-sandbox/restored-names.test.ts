import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { QuickJsSandbox } from "./quickjs-sandbox.ts";
import { restoreNames } from "./restored-names.ts";
import { propertiesAfter } from "./sandbox.setup.ts";

let sandbox: QuickJsSandbox;
beforeAll(() => {
  sandbox = new QuickJsSandbox({ threads: 1 });
});
afterAll(() => sandbox.close());

/** Classes as compilers write them for older engines, and others that have the name of what holds them. */
const CLASSES = `
  var Money = /** @class */ (function () {
    function Money(amount) { this.amount = amount; }
    Money.prototype.told = function () { return this.constructor.name; };
    return Money;
  }());
  var Missing = (function (Parent) {
    function Missing(message) { var error = Parent.call(this, message) || this; error.name = Missing.name; return error; }
    return Missing;
  }(Error));
  const Utf8 = (() => { class Utf8 {} return Utf8 })();
  const Open = (() => { return class Open extends Utf8 {} })();
  const Kept = (() => { class Kept2 {} return Kept2 })();
  const Told = (() => { class Told { static name = "own" } return Told })();
`;

describe("names of classes", () => {
  it.each([
    ["CommonJS", CLASSES],
    ["a module", `export {};${CLASSES}`],
  ])(
    "[TS-17] stay where one stands within the reach of another, in %s",
    async (_style, classes) => {
      const source = `${classes}
      globalThis.processEvent = (event) => {
        event.properties = { seen: [new Money(1).told(), new Missing("x").name, Utf8.name, Open.name, Kept.name, Told.name] };
        return event;
      };`;
      expect(await propertiesAfter(sandbox, source)).toEqual({
        seen: ["Money", "Missing", "Utf8", "Open", "Kept2", "own"],
      });
    },
  );

  it("[TS-17] leave what sources call so themselves, and every line where it is", () => {
    const files = { "index.js": "class Kept2 {} function Own3() {} function Plain() {}" };
    const code = "class Kept2 {\n}\n  function Own3() {\n  }\n  function Plain2() {\n  }\n";
    const restored = restoreNames(code, files);
    expect(restored).toContain("class Kept2 {\n}\n  function Own3() {\n");
    expect(restored).toContain('value: "Plain"');
    expect(restored.split("\n")).toHaveLength(code.split("\n").length);
  });

  it("[TS-17] are looked for in one pass, whatever the code is full of", () => {
    const size = 60_000;
    // Lines that begin as classes do and never come to their brace, and names that few texts have.
    const lines = `const told = tag\`\n${"class A1 extends \n".repeat(size)}}\`;\n`;
    const names = Array.from({ length: size }, (_, at) => `class B${at}x1 {\n}\n`).join("");
    const text = `${"B0x B1x ".repeat(size)}${names}`;
    expect(restoreNames(lines + names, { "index.js": text })).toBe(lines + names);
    const digits = `class C${"1".repeat(size)} {`;
    expect(restoreNames(digits, { "index.js": text })).toBe(digits);
  });
});
