import { readdirSync } from "node:fs";
import { join } from "node:path";

/** Every file below a folder whose name ends as given, as paths from the working directory. */
export function filesBelow(folder: string, ending: RegExp): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => ending.test(path) && !/(^|\/)(dist|node_modules)\//.test(path))
    .map((path) => join(folder, path));
}
