import * as quickJs from "@jitl/quickjs-wasmfile-release-sync";
import fc from "fast-check";
import {
  newQuickJSWASMModuleFromVariant,
  newVariant,
  type QuickJSContext,
  type QuickJSSyncVariant,
} from "quickjs-emscripten-core";
import { beforeAll, expect, it } from "vitest";
import { withNativeTexts } from "./native-texts.ts";
import { nestsDeeper } from "./read-depth.ts";

const variant = ((quickJs.default as { default?: unknown }).default ??
  quickJs.default) as QuickJSSyncVariant;

function echo(context: QuickJSContext, text: string): string {
  const handle = context.newString(text);
  const back = context.getString(handle);
  handle.dispose();
  return back;
}

let plain: QuickJSContext;
let native: QuickJSContext;
beforeAll(async () => {
  plain = (await newQuickJSWASMModuleFromVariant(variant)).newContext();
  native = (
    await newQuickJSWASMModuleFromVariant(withNativeTexts(newVariant(variant, {})))
  ).newContext();
});

it("brings texts through the engine as the engine's own encoder does", () => {
  const text = fc.string({ unit: "binary", maxLength: 60 });
  fc.assert(
    fc.property(text, (given) => {
      expect(echo(native, given)).toBe(echo(plain, given));
    }),
  );
});

it("brings any well-formed text through as it is, while the engine's memory grows", () => {
  const large = "aä€😀".repeat(1_000_000);
  expect(echo(native, large) === large).toBe(true);
  expect(echo(native, "")).toBe("");
});

it("tells texts that nest too deep from those that only have many brackets", () => {
  fc.assert(
    fc.property(fc.nat(30), fc.nat(30), fc.nat(30), (arrays, flat, inText) => {
      const text = `${"[".repeat(arrays)}"${"{[".repeat(inText)}\\""${",{}".repeat(arrays > 0 ? flat : 0)}${"]".repeat(arrays)}`;
      const depth = arrays + (arrays > 0 && flat > 0 ? 1 : 0);
      JSON.parse(text);
      expect(nestsDeeper(text, depth)).toBe(false);
      if (depth > 0) expect(nestsDeeper(text, depth - 1)).toBe(true);
    }),
  );
});
