import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { JsonObject } from "@hedgerow/core/json";
import { describe, expect, it } from "vitest";
import { QuickJsSandbox } from "./quickjs-sandbox.ts";
import { propertiesAfter, recordHost } from "./sandbox.setup.ts";

const KEYS = `personalApiKey: "phx_1", projectApiKey: "phc_1"`;

describe("posthog.api", () => {
  it("[TS-27] asks this service or another granted host with the keys that it is given", async () => {
    const asked: JsonObject[] = [];
    const server = createServer(async (request, response) => {
      let body = "";
      for await (const part of request) body += part;
      const {
        authorization = null,
        "content-type": type = null,
        "x-a": extra = null,
      } = request.headers as Record<string, string>;
      asked.push({ call: `${request.method} ${request.url}`, authorization, type, extra, body });
      response.writeHead(request.method === "DELETE" ? 404 : 200).end('{"name":"P"}');
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const sandbox = new QuickJsSandbox({ threads: 1, privateNetworks: ["127.0.0.1"] });
    const source = `
      export async function processEvent(event) {
        const { api } = posthog, keys = { ${KEYS} };
        event.properties = {
          name: (await (await api.get("/api/projects/@current", { data: { a: "b c" }, ...keys })).json()).name,
          made: (await api.post("api/projects/1/annotations/?x=1", { data: { n: 1 }, headers: { "X-A": "1" }, ...keys })).ok,
          put: (await api.put("/a", { data: {}, host: "http://${host}/", ...keys })).status,
          gone: (await api.delete("/b", keys)).status,
        };
        return event;
      }`;
    const settings = {
      allowedHosts: [host],
      host: { ...recordHost().host, siteUrl: `http://${host}` },
    };
    try {
      const seen = await propertiesAfter(sandbox, source, settings);
      expect(seen).toEqual({ name: "P", made: true, put: 200, gone: 404 });
      const common = { authorization: "Bearer phx_1", extra: null };
      expect(asked).toEqual([
        { ...common, call: "GET /api/projects/@current?a=b+c&token=phc_1", type: null, body: "" },
        {
          ...{ ...common, call: "POST /api/projects/1/annotations/?x=1&token=phc_1" },
          ...{ type: "application/json", extra: "1", body: '{"n":1}' },
        },
        { ...common, call: "PUT /a?token=phc_1", type: "application/json", body: "{}" },
        { ...common, call: "DELETE /b?token=phc_1", type: null, body: "" },
      ]);
    } finally {
      await sandbox.close();
      await new Promise((done) => server.close(done));
    }
  });

  it("[TS-27] rejects with the reason what lacks a key or is not granted", async () => {
    const sandbox = new QuickJsSandbox({ threads: 1 });
    const seen = await propertiesAfter(
      sandbox,
      `const why = (promise) => promise.then(() => "done", (error) => error.message);
      export async function processEvent(event, meta) {
        event.properties = {
          keyless: await why(posthog.api.get("/api/users/@me")),
          half: await why(meta.posthog.api.post("/a", { personalApiKey: "phx_1" })),
          pathless: await why(posthog.api.put(undefined, { ${KEYS} })),
          ungranted: await why(posthog.api.delete("/a", { ${KEYS} })),
        };
        return event;
      }`,
      { host: { ...recordHost().host, siteUrl: "https://hedgerow.test" } },
    );
    await sandbox.close();
    const keyless =
      "posthog.api needs the options personalApiKey and projectApiKey: no key is made for transformations";
    expect(seen).toEqual({
      ...{ keyless, half: keyless, pathless: "posthog.api needs a path" },
      ungranted: "fetch of hedgerow.test is not granted to this transformation",
    });
  });
});
