import { createRequire } from "node:module";
import { isJsonObject, type Json } from "@hedgerow/core/json";
import type { InstanceSettings, Sandbox } from "../../../transformations/sandbox.ts";
import { propertiesAfter } from "../sandbox.setup.ts";

const require = createRequire(import.meta.url);

/** What an expression is in the sandbox, and what in Node.js: the name of what it throws, if it does. */
export async function bothWays(
  sandbox: Sandbox,
  expression: string,
  settings: Partial<InstanceSettings> = {},
): Promise<readonly [inside: Json, outside: Json]> {
  const work = `async () => {
    try { const seen = await (${expression}); return seen === undefined ? "undefined" : seen }
    catch (error) { return error.name }
  }`;
  const source = `async function processEvent(event) {
    event.properties = { seen: await (${work})() };
    return event;
  }`;
  const outside = await (new Function("require", `return (${work})()`) as AnswerOf)(require);
  const after = await propertiesAfter(sandbox, source, settings);
  const inside = isJsonObject(after) && "seen" in after ? (after["seen"] as Json) : after;
  return [inside, JSON.parse(JSON.stringify(outside)) as Json];
}

type AnswerOf = (require: NodeJS.Require) => Promise<unknown>;
