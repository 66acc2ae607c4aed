import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openCaptureApi, TOKEN } from "./capture-api.setup.ts";

type Api = Awaited<ReturnType<typeof openCaptureApi>>;

describe("captures at the front door", () => {
  let api: Api;
  let url: string;
  beforeAll(async () => {
    api = await openCaptureApi();
    await api.app.listen({ port: 0, host: "127.0.0.1" });
    url = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`;
  });
  afterAll(() => api.close());

  async function ask(path: string, init: RequestInit) {
    const response = await fetch(`${url}${path}`, { method: "POST", ...init });
    const { date: _date, ...headers } = Object.fromEntries(response.headers);
    return { status: response.status, headers, body: await response.text() };
  }

  const batch = (...batch: object[]) => JSON.stringify({ api_key: TOKEN, batch });
  const one = { event: "seen", distinct_id: "ö" };
  const compressed = {
    body: new Uint8Array(gzipSync(batch(one, one))),
    headers: { "content-encoding": "gzip", origin: "https://example.com" },
  };
  const table: [string, string, RequestInit, number][] = [
    ["a batch", "", { body: batch(one, one) }, 2],
    ["a compressed batch", "?ip=1&_=1768478400000", compressed, 2],
    ["one bad event of two", "", { body: batch(one, { event: "x" }) }, 1],
    ["bad events alone", "", { body: batch({ event: "x" }) }, 0],
    ["a beacon", "?beacon=1", { body: batch(one), headers: { "content-type": "text/plain" } }, 1],
    ["no JSON", "", { body: "{nope" }, 0],
    ["a key of nobody", "", { body: batch(one).replace(TOKEN, "phx_mine") }, 0],
    ["no body", "", {}, 0],
  ];

  it.each(table)(
    "[PI-67] are answered as by the framework: %s",
    async (_what, query, init, taken) => {
      for (const path of ["/batch", "/e"]) {
        const direct = await ask(`${path}/${query}`, init);
        expect(await api.captured()).toHaveLength(taken);
        // Doubled slashes are left to the framework.
        expect(await ask(`/${path}${query}`, init)).toEqual(direct);
        expect(await api.captured()).toHaveLength(taken);
      }
    },
  );

  it("[PI-67] leave a GET to the framework", async () => {
    const data = encodeURIComponent(JSON.stringify({ ...one, api_key: TOKEN }));
    const answer = await ask(`/e/?data=${data}&beacon=1`, { method: "GET" });
    expect(answer).toMatchObject({ status: 204, body: "" });
    expect(await api.captured()).toHaveLength(1);
  });
});
