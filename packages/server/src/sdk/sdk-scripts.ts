import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { entityTagOf } from "../http/entity-tag.ts";

/** One script of the browser SDK. */
export interface SdkScript {
  readonly source: Buffer;
  /** Strong entity tag of the source. */
  readonly etag: string;
}

/** The scripts that browsers load from this server, taken from the installed `posthog-js` package. */
export interface SdkScripts {
  /** The script of a file name such as `array.js`; `undefined` for names the package does not have. */
  script(name: string): Promise<SdkScript | undefined>;
}

/** Reads the package's list of scripts; each is read from disk when first asked for. */
export function openSdkScripts(): SdkScripts {
  const folder = join(
    dirname(createRequire(import.meta.url).resolve("posthog-js/package.json")),
    "dist",
  );
  const names = new Set(readdirSync(folder).filter((name) => name.endsWith(".js")));
  const loaded = new Map<string, Promise<SdkScript>>();
  return {
    async script(name) {
      if (!names.has(name)) return undefined;
      let script = loaded.get(name);
      if (!script) {
        script = readFile(join(folder, name)).then((source) => ({
          source,
          etag: entityTagOf(source),
        }));
        script.catch(() => loaded.delete(name));
        loaded.set(name, script);
      }
      return script;
    },
  };
}
