import { pino } from "pino";
import { describe, expect, it } from "vitest";
import { createApp } from "./app.ts";
import { queryText } from "./query-text.ts";

describe("queryText", () => {
  async function read(url: string): Promise<string | null> {
    const app = createApp({ logger: pino({ level: "silent" }) });
    app.get("/", async (request) => ({ text: queryText(request.query, "a") ?? null }));
    const answer = await app.inject(url);
    await app.close();
    return answer.json().text;
  }

  it.each([
    ["/?a=1", "1"],
    ["/?a=1&b=2&a=3", "3"],
    ["/?a", ""],
    ["/?a=", ""],
    ["/?b=1", null],
    ["/?__proto__=1&constructor=2", null],
    ["/?a=x%00y", "x\uFFFDy"],
  ])("reads %s as %j", async (url, text) => {
    expect(await read(url)).toBe(text);
  });
});
