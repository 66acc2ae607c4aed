import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { JsonObject } from "@hedgerow/core/json";
import { v7 } from "uuid";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { catalogueRunner, type Sent } from "./run-source.setup.ts";
import type { SandboxEvent } from "./sandbox.ts";

let catalogue: Awaited<ReturnType<typeof catalogueRunner>>;
beforeAll(async () => {
  catalogue = await catalogueRunner();
});
afterAll(() => catalogue.close());

const run: typeof catalogue.run = (...given) => catalogue.run(...given);

const properties = (event: SandboxEvent | null | undefined) => event?.properties as JsonObject;

describe("the catalogue", () => {
  it("[TP-30] holds at least twelve transformations, each with its manifest and a page about it", () => {
    expect(catalogue.entries.length).toBeGreaterThanOrEqual(12);
    for (const { files } of catalogue.entries) {
      expect(Object.keys(files)).toEqual(
        expect.arrayContaining(["README.md", "index.ts", "plugin.json"]),
      );
      const manifest: JsonObject = JSON.parse(files["plugin.json"] ?? "");
      expect(manifest).toMatchObject({ name: expect.any(String), description: expect.any(String) });
    }
  });

  it("[TP-31] drops events by rule, or keeps only those", async () => {
    const rules = JSON.stringify([
      { event: ["debug*", "$autocapture"] },
      { where: [{ property: "cart.total", less_than: 1 }] },
    ]);
    const sent: Sent[] = [
      { event: "Debug me" },
      { event: "buy", properties: { cart: { total: 0.5 } } },
      { event: "buy", properties: { cart: { total: 5 } } },
      { event: "buy" },
    ];
    const left = async (action: string) =>
      (await run("drop-events", { rules, action }, ...sent)).map((event) => event !== null);
    expect(await left("drop")).toEqual([false, false, true, true]);
    expect(await left("keep only these")).toEqual([true, true, false, false]);
    await expect(run("drop-events", { rules: "[{}]" }, {})).rejects.toThrow("match everything");
    const second = {
      where: [
        { property: "a", is: 1 },
        { property: "b", matches: "(x" },
      ],
    };
    const broken = JSON.stringify([{ event: "a" }, second]);
    await expect(run("drop-events", { rules: broken }, {})).rejects.toThrow(
      /Rule 2: "\(x" is no regular expression: expecting '\)'/,
    );
  });

  it("[TP-32] removes listed properties, or all others, at any depth", async () => {
    const given = { $lib: "web", a: 1, "b.c": 2, d: [{ e: 1, f: 2 }], $set: { a: 3, g: 4 } };
    const [removed] = await run(
      "filter-properties",
      { properties: "a, b.c, d.e" },
      { properties: given },
    );
    expect(properties(removed)).toEqual({ $lib: "web", d: [{ f: 2 }], $set: { g: 4 } });
    const settings = { properties: "a, d.*", action: "keep only these" };
    const [kept] = await run("filter-properties", settings, { properties: given });
    expect(properties(kept)).toEqual({
      ...{ $lib: "web", a: 1, d: [{ e: 1, f: 2 }], $set: { a: 3 } },
    });
  });

  it("[TP-33] redacts personal data wherever it stands, and nothing that only looks like it", async () => {
    const [event] = await run(
      "redact-personal-data",
      { distinctId: "replace by a hash" },
      {
        distinctId: "jane@example.com",
        properties: {
          note: "Write to jane.doe+x@mail.example.co.uk or call +44 20 7946 0958!",
          deep: [{ card: "4111 1111 1111 1111", order: "4111 1111 1111 1112" }],
          Password: "hunter2",
          url: "https://x.test/?m=jane%40example.com",
          key: `use ${"AKIA"}ABCDEFGHIJKLMNOP`,
          when: "2026-02-28 23:30:00",
          version: "10.15.7",
          count: 1234567890,
          number: 4111111111111111,
          $set: { email: "jane@example.com", plan: "pro" },
        },
      },
    );
    expect(properties(event)).toEqual({
      note: "Write to [redacted] or call [redacted]!",
      deep: [{ card: "[redacted]", order: "4111 1111 1111 1112" }],
      Password: "[redacted]",
      url: "https://x.test/?m=[redacted]",
      key: "use [redacted]",
      when: "2026-02-28 23:30:00",
      version: "10.15.7",
      count: 1234567890,
      number: "[redacted]",
      $set: { email: "[redacted]", plan: "pro" },
    });
    expect(event?.distinct_id).toMatch(/^redacted-[0-9a-f]{32}$/);
  });

  it("[TP-34] cleans queries of URLs", async () => {
    const $current_url = "https://u:p@x.test/a?Token=1&b=%20c&utm_source=x#/p?code=2";
    const clean = async (settings: JsonObject) =>
      properties((await run("clean-url-queries", settings, { properties: { $current_url } }))[0])
        .$current_url;
    expect(await clean({})).toBe("https://x.test/a?b=%20c&utm_source=x#/p?code=2");
    expect(await clean({ action: "remove all", fragment: "clean like a query" })).toBe(
      "https://x.test/a#/p",
    );
    expect(
      await clean({ action: "keep only listed", parameters: "utm_*", fragment: "remove" }),
    ).toBe("https://x.test/a?utm_source=x");
  });

  const iphone =
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Mobile/15E148 Safari/604.1";

  it("[TP-35] reads user agents, and leaves what the sender gave", async () => {
    const given = { $raw_user_agent: iphone, $os: "mine" };
    const [event] = await run("parse-user-agent", {}, { properties: given });
    expect(properties(event)).toMatchObject({
      ...{ $browser: "Mobile Safari", $browser_version: 17.4, $os: "mine", $os_version: "17.4.0" },
      ...{ $device_type: "Mobile", $device_manufacturer: "Apple", $device: "iPhone" },
    });
  });

  it.each([
    ["Windows NT 10.0; Win64; x64", "Windows", "10"],
    ["Windows NT 6.3; ARM", "Windows", "RT"],
    ["Windows NT 6.1", "Windows", "7"],
    ["Windows NT 5.2", "Windows", "XP"],
    ["Macintosh; Intel Mac OS X 10_15_7", "Mac OS X", "10.15.7"],
    ["Macintosh; Intel Mac OS X 14_4", "Mac OS X", "14.4.0"],
    ["Linux; Android 8.1; Pixel 2", "Android", "8.1.0"],
    ["Linux; Android 14; Pixel 8", "Android", "14"],
  ])("[TP-35] tells systems as posthog-js does: %s", async (platform, $os, $os_version) => {
    const $raw_user_agent = `Mozilla/5.0 (${platform}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36`;
    const [event] = await run("parse-user-agent", {}, { properties: { $raw_user_agent } });
    expect(properties(event)).toMatchObject({ $os, $os_version });
  });

  it("[TP-36] adds places as exactly as is wanted", async () => {
    const settings = { detail: "country", persons: "latest", removeAddress: "remove" };
    const given = { $ip: "81.2.69.142", $geoip_city_name: "London" };
    const [event] = await run("add-place", settings, { properties: given });
    expect(properties(event)).toMatchObject({
      $geoip_country_code: "GB",
      $set: { $geoip_country_code: "GB" },
    });
    expect(properties(event)).not.toHaveProperty("$geoip_city_name");
    expect(properties(event)).not.toHaveProperty("$ip");
    expect(event?.ip).toBeNull();
  });

  it.each<[JsonObject, string]>([
    [{ $referrer: "$direct" }, "Direct"],
    [{ $referrer: "https://www.google.co.uk/" }, "Organic Search"],
    [{ $current_url: "https://x.test/?gclid=1" }, "Paid Search"],
    [{ $current_url: "https://x.test/?utm_source=facebook&utm_medium=cpc" }, "Paid Social"],
    [{ utm_source: "news", utm_medium: "email" }, "Email"],
    [{ $referrer: "https://chatgpt.com/" }, "AI Assistant"],
    [{ $referrer: "https://blog.example.org/post" }, "Referral"],
    [{ $referrer: "https://shop.x.test/a", $host: "x.test" }, "Internal"],
    [{ utm_source: "partner-a" }, "Partners"],
  ])("[TP-37] tells which channel a visit with %o came through", async (given, channel) => {
    const rules = JSON.stringify([{ source: "partner-*", channel: "Partners" }]);
    const settings = { ownHosts: "x.test", rules };
    const [event] = await run("classify-source", settings, { properties: given });
    expect(properties(event)).toMatchObject({ $channel: channel });
  });

  it("[TP-38] samples persons, always the same ones, and adds some when the share grows", async () => {
    const sent = Array.from({ length: 1000 }, (_, n) => ({ event: "a", distinctId: `p${n}` }));
    const kept = async (percent: string) => {
      const events = await run("sample-by-person", { percent }, ...sent);
      return new Set(events.flatMap((event) => event?.distinct_id ?? []));
    };
    const [ten, again, thirty] = [await kept("10"), await kept("10"), await kept("30")];
    expect(again).toEqual(ten);
    expect([...ten].every((id) => thirty.has(id))).toBe(true);
    expect(ten.size).toBeGreaterThan(60);
    expect(ten.size).toBeLessThan(140);
    const [identify] = await run("sample-by-person", { percent: "0" }, { event: "$identify" });
    expect(identify).not.toBeNull();
  });

  it("[TP-39] splits times in a time zone, summer time included", async () => {
    const settings = {
      timeZone: "Europe/Berlin",
      parts: "hour, day_of_week, date, week, time_zone",
    };
    const [winter, summer] = await run(
      "split-timestamp",
      settings,
      { timestamp: "2026-02-28T23:30:00Z" },
      { timestamp: "2026-07-01T12:00:00Z" },
    );
    expect(properties(winter)).toEqual({
      ...{ time_hour: 0, time_day_of_week: 7, time_date: "2026-03-01", time_week: 9 },
      time_time_zone: "Europe/Berlin",
    });
    expect(properties(summer)).toMatchObject({ time_hour: 14, time_date: "2026-07-01" });
    const [offset] = await run(
      "split-timestamp",
      { timeZone: "+05:30", parts: "hour, minute" },
      {},
    );
    expect(properties(offset)).toEqual({ time_hour: 5, time_minute: 0 });
    await expect(run("split-timestamp", { timeZone: "Mars/Phobos" }, {})).rejects.toThrow("Mars");
  });

  it("[TP-40] flattens versions", async () => {
    const given = { $app_version: "v1.22.0-beta.3+b42", $lib_version: "2.5", other: "1.0" };
    const [event] = await run("flatten-version", {}, { properties: given });
    expect(properties(event)).toMatchObject({
      ...{ $app_version__major: 1, $app_version__minor: 22, $app_version__patch: 0 },
      ...{ $app_version__prerelease: "beta.3", $app_version__build: "b42" },
      ...{ $app_version__number: 1_021_999.5, $lib_version__minor: 5, $lib_version__patch: 0 },
    });
    expect(properties(event)).not.toHaveProperty("other__major");
  });

  it("[TP-41] converts currencies by the given rates", async () => {
    const rates = JSON.stringify({ USD: 1, EUR: 1.08 });
    const [event, german, unknown] = await run(
      "convert-currency",
      { rates, amounts: "price, items.price" },
      { properties: { price: 20, currency: "eur", items: [{ price: "10" }] } },
      { properties: { price: "1.299,00 €", currency: "EUR" } },
      { properties: { price: 1, currency: "XYZ" } },
    );
    expect(properties(event)).toMatchObject({
      ...{ price_normalized: 21.6, items: [{ price: "10", price_normalized: 10.8 }] },
      normalized_currency: "USD",
    });
    expect(properties(german)).toMatchObject({ price_normalized: 1402.92 });
    expect(properties(unknown)).toMatchObject({ currency_problem: "no rate for XYZ" });
  });

  it("[TP-42] marks or drops what does not fit its schema", async () => {
    const schemas = JSON.stringify({
      buy: { required: { amount: "number", "cart.id": "uuid" }, optional: { note: "string|null" } },
    });
    const sent: Sent[] = [
      { event: "buy", properties: { amount: "12", note: null } },
      { event: "buy", properties: { amount: 12, cart: { id: v7() } } },
      { event: "look" },
    ];
    const [wrong, right, other] = await run("guard-schema", { schemas }, ...sent);
    expect(properties(wrong)).toMatchObject({
      $schema_valid: false,
      $schema_problems: ['amount: expected number, found string "12"', "cart.id: missing"],
    });
    expect(properties(right)).toMatchObject({ $schema_valid: true });
    expect(properties(other)).toEqual({});
    const dropped = await run("guard-schema", { schemas, action: "drop" }, ...sent);
    expect(dropped.map((event) => event === null)).toEqual([true, false, false]);
    const strict = { schemas, action: "drop", unknownEvents: "treat as unfit" };
    const left = await run("guard-schema", strict, { event: "look" }, { event: "$pageview" });
    expect(left.map((event) => event === null)).toEqual([true, false]);
  });

  it("[TP-43] filters bots", async () => {
    const bot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
    const sent = [bot, iphone, "curl/8.1"].map((agent) => ({
      properties: { $raw_user_agent: agent },
    }));
    const fates = async (settings: JsonObject) =>
      (await run("filter-bots", settings, ...sent, {})).map((event) => event === null);
    expect(await fates({})).toEqual([true, false, true, false]);
    expect(await fates({ allow: "googlebot" })).toEqual([false, false, true, false]);
    const [marked] = await run("filter-bots", { action: "mark" }, ...sent);
    expect(properties(marked)).toMatchObject({ $is_bot: true });
  });

  it("[TP-44] keeps the first touch on persons", async () => {
    const [event] = await run(
      "first-touch",
      { properties: "utm_source, $referrer" },
      { properties: { $current_url: "https://x.test/?utm_source=news", $set_once: { a: 1 } } },
    );
    expect(properties(event).$set_once).toEqual({
      first_touch_utm_source: "news",
      first_touch_referrer: null,
      first_touch_at: "2026-02-28T23:30:00.000Z",
      a: 1,
    });
  });
});

describe("plugins that others published", () => {
  it("[TP-45] run unchanged: @posthog/geoip-plugin", async () => {
    const folder = dirname(
      createRequire(fileURLToPath(import.meta.url)).resolve("@posthog/geoip-plugin/package.json"),
    );
    const files = Object.fromEntries(
      readdirSync(folder)
        .filter((name) => ["index.ts", "plugin.json", "package.json"].includes(name))
        .map((name) => [name, readFileSync(join(folder, name), "utf8")]),
    );
    const [found, nowhere] = await catalogue.runSource(files, {}, [
      { properties: { $ip: "81.2.69.142" } },
      {},
    ]);
    expect(properties(found)).toMatchObject({ $geoip_country_code: "GB" });
    expect(found).toMatchObject({
      $set: { $geoip_country_code: "GB", $geoip_time_zone: "Europe/London" },
      $set_once: { $initial_geoip_country_name: "United Kingdom" },
    });
    expect(nowhere).not.toHaveProperty("$set");
  });
});
