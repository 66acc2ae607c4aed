import { existsSync, readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** A transformation that comes with the service. */
export interface CatalogueEntry {
  /** Name of its folder: what its URL ends with. */
  readonly name: string;
  /** Text of its files by name: `plugin.json`, `index.ts`, `README.md` and what these need. */
  readonly files: Readonly<Record<string, string>>;
}

/** What a folder of the catalogue may take from a package: its file, by the name it gets. */
const VENDORED = "vendored.json";

/**
 * Everything that comes with the service, by name. The bundled service holds the texts as one file;
 * elsewhere they are read from their folders.
 */
export async function readCatalogue(): Promise<readonly CatalogueEntry[]> {
  const bundled = fileURLToPath(new URL("./catalogue.json", import.meta.url));
  if (existsSync(bundled)) return JSON.parse(readFileSync(bundled, "utf8"));
  return gatherCatalogue(fileURLToPath(new URL("./catalogue", import.meta.url)));
}

/** Reads a folder of transformations: what bundling puts into one file. */
export async function gatherCatalogue(folder: string): Promise<readonly CatalogueEntry[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  return Promise.all(
    names.sort().map(async (name) => ({ name, files: await readTexts(join(folder, name)) })),
  );
}

async function readTexts(folder: string): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  for (const name of (await readdir(folder)).sort()) {
    if (/\.(test|d)\.ts$/.test(name) || name === VENDORED) continue;
    files[name] = await readFile(join(folder, name), "utf8");
  }
  const vendored = join(folder, VENDORED);
  if (existsSync(vendored)) {
    const { resolve } = createRequire(import.meta.url);
    const wanted: Readonly<Record<string, string>> = JSON.parse(await readFile(vendored, "utf8"));
    for (const [name, specifier] of Object.entries(wanted)) {
      files[name] = await readFile(resolve(specifier), "utf8");
    }
  }
  return files;
}
