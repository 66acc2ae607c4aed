import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { fixHelpers } from "./bundler-helpers.ts";
import { esbuildService } from "./esbuild-service.ts";

/** What runs inside of the sandbox before any transformation, as scripts. */
export interface GuestTexts {
  readonly core: string;
  /** By name: evaluated when first used. */
  readonly parts: Readonly<Record<string, string>>;
}

const PARTS = [
  ...["inspect", "url", "web", "fetch", "crypto", "intl", "buffer", "node"],
  "jsonwebtoken",
];

/**
 * Reads the scripts. The bundled server has them beside its own files (`scripts/bundle.mjs`);
 * otherwise they are made here of the modules.
 */
export async function loadGuestTexts(): Promise<GuestTexts> {
  const names = ["core", ...PARTS];
  const texts = await (isBundled() ? readTexts(names) : buildTexts(names));
  const [core = "", ...parts] = texts;
  const body = (text: string) =>
    `var module = { exports: {} }, exports = module.exports;\n${fixHelpers(text)}\n`;
  return {
    core: `(function () {${body(core)}})();`,
    parts: Object.fromEntries(
      PARTS.map((name, index) => [
        name,
        `(function (core) {${body(parts[index] ?? "")}return module.exports.makePart(core); })`,
      ]),
    ),
  };
}

/** In the bundle every script is one file, and none is left of what they share. */
function isBundled(): boolean {
  return !["ts", "js"].some((ending) =>
    existsSync(fileURLToPath(new URL(`./guest/part.${ending}`, import.meta.url))),
  );
}

function readTexts(names: readonly string[]): Promise<string[]> {
  return Promise.all(
    names.map((name) => readFile(new URL(`./guest/${name}.js`, import.meta.url), "utf8")),
  );
}

async function buildTexts(names: readonly string[]): Promise<string[]> {
  const ending = import.meta.url.endsWith(".ts") ? "ts" : "js";
  const { outputFiles } = await esbuildService.run(() =>
    build({
      entryPoints: names.map((name) =>
        fileURLToPath(new URL(`./guest/${name}.${ending}`, import.meta.url)),
      ),
      outdir: "/",
      bundle: true,
      write: false,
      format: "cjs",
      platform: "neutral",
      mainFields: ["main"],
      target: "es2023",
      minifySyntax: true,
      minifyWhitespace: true,
      logLevel: "silent",
    }),
  );
  return names.map(
    (name) => outputFiles.find((file) => file.path.endsWith(`/${name}.js`))?.text ?? "",
  );
}
