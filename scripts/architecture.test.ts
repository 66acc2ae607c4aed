import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, it } from "vitest";
import { filesBelow } from "./source-files.ts";

const CORE = "packages/core/src";
const SERVER = "packages/server/src";

type Room =
  | "core"
  | "platform"
  | "port"
  | "engine"
  | "routes"
  | "feature"
  | "http"
  | "composition"
  | "command";

/** Who may import whom (ARCHITECTURE.md). A room always may import itself, engines only their own folder. */
const MAY_IMPORT: Readonly<Record<Room, readonly Room[]>> = {
  core: [],
  platform: ["core"],
  port: ["core"],
  engine: ["core", "platform", "port"],
  feature: ["core", "platform", "port", "http"],
  routes: ["core", "platform", "port", "feature", "http"],
  http: ["core", "platform", "port"],
  composition: ["core", "platform", "port", "engine", "routes", "feature", "http"],
  command: ["core", "platform", "port", "engine", "routes", "feature", "http", "composition"],
};

/** Packages that the pure core may use besides itself: pure themselves, and named here one by one. */
const CORE_PACKAGES = ["re2js"];

const PORTS =
  /\/(account-store|activity-log|flag-store|audience|decision-counts|flag-calls|cohort-store|experiment-store|experiment-part-store|experiment-measures|frozen-answers|membership-store|event-definition-store|property-definition-store|sighting-store|person-store|person-records|group-records|ingestion-warning-store|refusal-store|event-log|event-store|performers|transformation-store|transformation-config-store|transformation-records|geo-ip|scopes|person-uuid|sandbox|archive-reader)\.ts$/;

function roomOf(path: string): Room {
  if (path.startsWith(CORE)) return "core";
  if (path.startsWith(`${SERVER}/engines/`)) return "engine";
  if (path.startsWith(`${SERVER}/platform/`)) return "platform";
  if (PORTS.test(path)) return "port";
  if (/\.(routes|schemas)\.ts$/.test(path)) return "routes";
  if (path.startsWith(`${SERVER}/http/write-openapi`)) return "command";
  if (path.startsWith(`${SERVER}/http/`)) return "http";
  if (path === `${SERVER}/compose.ts` || path.startsWith(`${SERVER}/compose/`)) {
    return "composition";
  }
  if (path === `${SERVER}/config.ts`) return "composition";
  if (path === `${SERVER}/main.ts` || path.startsWith(`${SERVER}/commands/`)) return "command";
  return "feature";
}

function importsOf(path: string): string[] {
  const source = readFileSync(path, "utf8");
  return [...source.matchAll(/(?:from|import\(?)\s*"([^"]+)"/g)].map((match) => match[1] ?? "");
}

/** The file an import names, or `undefined` for a package. */
function target(from: string, specifier: string): string | undefined {
  if (specifier.startsWith(".")) return normalize(join(dirname(from), specifier));
  const core = /^@hedgerow\/core\/(.+)$/.exec(specifier);
  return core ? `${CORE}/${core[1]}.ts` : undefined;
}

const files = [...filesBelow(CORE, /\.ts$/), ...filesBelow(SERVER, /\.ts$/)].filter(
  (path) => !/\.(test|contract|setup)\.ts$/.test(path),
);

describe("architecture", () => {
  it("every import follows the direction of the house", () => {
    const wrong = files.flatMap((file) =>
      importsOf(file)
        .map((specifier) => target(file, specifier))
        .filter((imported) => imported !== undefined)
        .filter((imported) => {
          const [from, to] = [roomOf(file), roomOf(imported)];
          if (from === "engine" && to === "engine") {
            return file.split("/")[4] !== imported.split("/")[4];
          }
          return from !== to && !MAY_IMPORT[from].includes(to);
        })
        .map((imported) => `${file} imports ${imported}`),
    );
    expect(wrong).toEqual([]);
  });

  it("no files import each other in a circle", () => {
    const circles: string[] = [];
    const seen = new Map<string, "under way" | "done">();
    const visit = (file: string, path: readonly string[]): void => {
      if (seen.get(file) === "under way") {
        circles.push([...path.slice(path.indexOf(file)), file].join(" -> "));
      }
      if (seen.has(file)) return;
      seen.set(file, "under way");
      for (const specifier of importsOf(file)) {
        const imported = target(file, specifier);
        if (imported !== undefined && existsSync(imported)) visit(imported, [...path, file]);
      }
      seen.set(file, "done");
    };
    for (const file of files) visit(file, []);
    expect(circles).toEqual([]);
  });

  it("the core imports no package but the pure ones it names", () => {
    const wrong = files
      .filter((file) => file.startsWith(CORE))
      .flatMap((file) =>
        importsOf(file)
          .filter((specifier) => !specifier.startsWith(".") && !CORE_PACKAGES.includes(specifier))
          .map((specifier) => `${file} imports ${specifier}`),
      );
    expect(wrong).toEqual([]);
  });

  it("every file that ARCHITECTURE.md and CONTRIBUTING.md name exists", () => {
    const roots = ["", "packages", SERVER];
    const missing = ["ARCHITECTURE.md", "CONTRIBUTING.md"].flatMap((page) =>
      [...readFileSync(page, "utf8").matchAll(/`((?:[\w.-]+\/)+[\w.-]+\.ts)`/g)]
        .map((match) => match[1] ?? "")
        .filter((named) => !roots.some((root) => existsSync(join(root, named))))
        .map((named) => `${page} names ${named}`),
    );
    expect(missing).toEqual([]);
  });

  it("only config.ts reads the environment", () => {
    const readers = files.filter((file) => /process\.env\b/.test(readFileSync(file, "utf8")));
    expect(readers).toEqual([`${SERVER}/config.ts`]);
  });

  it("no file but the composition root and the commands names an engine", () => {
    const wrong = files
      .filter((file) => !["composition", "command", "engine"].includes(roomOf(file)))
      .filter((file) => importsOf(file).some((specifier) => specifier.includes("/engines/")));
    expect(wrong).toEqual([]);
  });
});
