import { createBuffer } from "./create-buffer.ts";
import { RetryError } from "./errors.ts";
import { type Exports, without } from "./intrinsics.ts";
import { keepLastMatch } from "./last-match.ts";
import { part } from "./load-part.ts";

/** What the bundler asks for before sources that read the last match. */
const LAST_MATCH = "last-match";

/** How the bundler asks for a package that is not here. */
const ABSENT = "absent:";

/** Answers what code imports; throws where there is no such module. */
export function requireGuest(name: unknown): unknown {
  const bare = String(name).replace(/^node:/, "");
  switch (bare) {
    case "@posthog/plugin-scaffold":
    case "posthog-plugins":
      return { RetryError, MetricsOperation: { Sum: "sum", Min: "min", Max: "max" } };
    case "@posthog/plugin-contrib":
      return { createBuffer };
    case "@maxmind/geoip2-node":
      return {};
    case "buffer":
      return part("buffer");
    case "jsonwebtoken":
      return part("jsonwebtoken");
    case "crypto":
      return part("crypto")["crypto"];
    case "node-fetch":
    case "cross-fetch":
      return part("fetch")["nodeFetch"];
    case "url":
      return part("url")["nodeUrl"];
    case "querystring":
      return part("url")["queryString"];
    case "assert":
    case "events":
    case "path":
    case "string_decoder":
    case "timers":
    case "util":
      return part("node")[bare];
    case "assert/strict":
      return (part("node")["assert"] as Exports)["strict"];
    case "path/posix":
      return part("node")["path"];
    case "timers/promises":
      return (part("node")["timers"] as Exports)["promises"];
    case "zlib":
      return part("crypto")["zlib"];
    case LAST_MATCH:
      return keepLastMatch();
    default:
      if (bare.startsWith(ABSENT)) return absentPackage(bare.slice(ABSENT.length), "");
      throw new Error(`Cannot import "${bare}": there is no such module here`);
  }
}

/** Stands for a package that is not here, or for something of it: fails where it is used. */
function absentPackage(name: string, member: string): unknown {
  const use = (): never => {
    const of = member === "" ? `"${name}"` : `${member} of "${name}"`;
    throw new Error(`Cannot use ${of}: transformations have no such package`);
  };
  const get = (target: object, key: string | symbol): unknown => {
    if (typeof key === "symbol" || key === "prototype") return Reflect.get(target, key);
    if (key === "then" || key === "__esModule") return undefined;
    return absentPackage(name, member === "" || member === "default" ? key : `${member}.${key}`);
  };
  const traps = {
    get,
    // Bundlers read what they import as a whole through an object made of its prototype. That has an
    // ordinary one, so that whoever looks along all of them comes to an end.
    getPrototypeOf: () => new Proxy({}, without({ get })),
    apply: use,
    construct: use,
  };
  return new Proxy(function absent() {}, without(traps));
}
