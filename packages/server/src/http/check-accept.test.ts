import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type App, createApp } from "./app.ts";
import { answersAlso } from "./check-accept.ts";
import { Refusal } from "./errors.ts";
import { access, managementApi } from "./management-api.ts";

describe("the header Accept of a management request", () => {
  let app: App;
  beforeAll(() => {
    app = createApp({ logger: pino({ level: "silent" }) });
    managementApi(
      app,
      async () => {
        throw new Refusal("not_authenticated", "Who are you?");
      },
      (scope) => {
        const { config } = access("any-key", "user");
        scope.get("/json", { config }, async () => ({}));
        const withCsv = { config: { ...config, ...answersAlso("text/csv") } };
        scope.get("/csv", withCsv, async () => ({}));
      },
    );
  });
  afterAll(() => app.close());

  const ask = async (url: string, accept?: string, method: "GET" | "POST" = "GET") =>
    app.inject({ method, url, headers: accept === undefined ? {} : { accept } });

  it.each([
    undefined,
    "",
    "*/*",
    "application/json",
    "Application/JSON; charset=utf-8",
    "application/*",
    "text/html, application/json;q=0.1",
    "text/html,application/xml;q=0.9,*/*;q=0.8",
    "text/html, *; q=.2",
  ])("[AC-60] lets a request through that JSON satisfies: %s", async (accept) => {
    expect((await ask("/json", accept)).statusCode).toBe(401);
  });

  it.each([
    "text/html",
    "text/*",
    "application/xml, text/plain;q=0.5",
    "application/jsonp",
    "json",
  ])(
    "[AC-60] is refused where JSON does not satisfy it, before anything else is said: %s",
    async (accept) => {
      for (const method of ["GET", "POST"] as const) {
        const answer = await ask("/json", accept, method);
        expect(answer.statusCode).toBe(406);
        expect(answer.headers["content-type"]).toBe("application/json; charset=utf-8");
        expect(answer.json()).toEqual({
          type: "invalid_request",
          code: "not_acceptable",
          detail: "Could not satisfy the request Accept header.",
          attr: null,
        });
      }
    },
  );

  it("[AC-60] may name what a route answers with beside JSON", async () => {
    expect((await ask("/csv", "text/csv")).statusCode).toBe(401);
    expect((await ask("/csv", "application/json")).statusCode).toBe(401);
    expect((await ask("/csv", "text/html")).statusCode).toBe(406);
    expect((await ask("/json", "text/csv")).statusCode).toBe(406);
  });
});
