import { pino } from "pino";
import { describe, expect, it } from "vitest";
import { createApp } from "./app.ts";
import { listAnswer, pageOf } from "./pagination.ts";

describe("links to neighbouring pages", () => {
  async function listed(url: string, host = "flags.example.org") {
    const app = createApp({ logger: pino({ level: "silent" }) });
    app.get("/things", async (request) =>
      listAnswer(request, pageOf(request), { count: 9, results: [] }),
    );
    const answer = await app.inject({ url, headers: { host } });
    await app.close();
    return answer;
  }

  it("are absolute, and keep the other parameters", async () => {
    const { next, previous } = (await listed("/things?limit=2&offset=4&search=a")).json();
    expect(next).toBe("http://flags.example.org/things?limit=2&offset=6&search=a");
    expect(previous).toBe("http://flags.example.org/things?limit=2&offset=2&search=a");
  });

  it("lead to the same host, however the path is written", async () => {
    const { next } = (await listed("//things?limit=2")).json();
    expect(new URL(next).host).toBe("flags.example.org");
  });

  it("are refused to a host that no link can name", async () => {
    const answer = await listed("/things?limit=2", "no host");
    expect([answer.statusCode, answer.json().code]).toEqual([400, "invalid_input"]);
  });

  it("count pages by the last of repeated parameters, and by the defaults for nonsense", async () => {
    const { next } = (await listed("/things?limit=x&limit=3&offset=-1")).json();
    expect(next).toBe("http://flags.example.org/things?limit=3&offset=3");
  });
});
