import type { Json, JsonObject } from "@hedgerow/core/json";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { catalogueRunner, type Sent } from "./run-source.setup.ts";

// What the transformations of the catalogue make of odd events and odd settings.

let catalogue: Awaited<ReturnType<typeof catalogueRunner>>;
beforeAll(async () => {
  catalogue = await catalogueRunner();
});
afterAll(() => catalogue.close());

const run: typeof catalogue.run = (...given) => catalogue.run(...given);

/** What becomes of the properties of some events; `null` for a dropped one. */
async function after(name: string, settings: JsonObject, ...given: readonly JsonObject[]) {
  const events = await run(name, settings, ...given.map((properties) => ({ properties })));
  return events.map((event) => (event === null ? null : (event.properties as JsonObject)));
}

/** What becomes of values of one property. */
async function valuesAfter(name: string, settings: JsonObject, ...values: readonly Json[]) {
  const found = await after(name, settings, ...values.map((value) => ({ value })));
  return found.map((one) => one?.value);
}

describe("drop-events", () => {
  const drop = (rules: unknown, settings: JsonObject, ...given: readonly JsonObject[]) =>
    after("drop-events", { rules: JSON.stringify(rules), ...settings }, ...given);

  it.each<[rules: unknown, why: string]>([
    [[{ event: "x", wheer: [{ property: "a", is: 1 }] }], 'Rule 1 has "wheer"'],
    [[{ event: null }], "Rule 1"],
    [[{ event: [] }], "Rule 1"],
    [[{ event: ["x", 5] }], "Rule 1"],
    [[{ where: [{ property: "a", greater_than: "abc" }] }], "greater_than"],
    [[{ where: [{ property: "a", less_than: null }] }], "less_than"],
    [[{ where: [{ property: "a", is_set: "false" }] }], "is_set"],
    [[{ where: [{ property: "a", is: [] }] }], "is"],
    [{ event: "x" }, "list"],
  ])(
    "[TP-31] refuses rules that would do something else than they seem to: %j",
    async (rules, why) => {
      await expect(drop(rules, {}, {})).rejects.toThrow(why);
    },
  );

  it("[TP-31] keeps only what matches by rules alone: without one it does not start", async () => {
    await expect(drop([], { action: "keep only these" }, {})).rejects.toThrow("at least one");
    expect(await drop([], {}, { a: 1 })).toEqual([{ a: 1 }]);
  });

  it("[TP-31] compares amounts with numbers only", async () => {
    const given = [{ n: false }, { n: [] }, { n: " " }, { n: null }, {}, { n: "0.5" }, { n: 0 }];
    const left = await drop([{ where: [{ property: "n", less_than: 1 }] }], {}, ...given);
    expect(left.map((one) => one === null)).toEqual([
      ...[false, false, false, false, false],
      ...[true, true],
    ]);
  });
});

describe("filter-properties", () => {
  it("[TP-32] removes what is set on persons as a whole where that is listed", async () => {
    const given = { a: 1, $set: { b: 2 }, $set_once: { a: 3, b: 4 } };
    expect(await after("filter-properties", { properties: "$set, a" }, given)).toEqual([
      { $set_once: { b: 4 } },
    ]);
    const left = await after(
      "filter-properties",
      { properties: "$set, a", personProperties: "no" },
      given,
    );
    expect(left).toEqual([{ $set: { b: 2 }, $set_once: { a: 3, b: 4 } }]);
  });

  it("[TP-32] takes every name for a name", async () => {
    const given = JSON.parse('{"__proto__":{"x":1,"y":2},"constructor":3,"a":4}');
    const [left] = await after("filter-properties", { properties: "a, __proto__.y" }, given);
    expect(JSON.stringify(left)).toBe('{"__proto__":{"x":1},"constructor":3}');
  });
});

describe("redact-personal-data", () => {
  const redacted = (settings: JsonObject, ...values: readonly Json[]) =>
    valuesAfter("redact-personal-data", settings, ...values);

  it("[TP-33] leaves what is no personal data: addresses unless asked for, versions, times, ids", async () => {
    const times = Array.from({ length: 200 }, (_, index) => 1_700_000_000_000 + index * 997);
    const plain: Json[] = [
      ...["203.113.100.125", "121.10.6167.85", "2024.10.1234.15", "1.234.567.890"],
      ...times,
      times.join(" "),
      1_700_000_000_000_000_000,
      "1234567812345678",
      "2026-01-01T12:30:45Z",
    ];
    expect(await redacted({}, ...plain)).toEqual(plain);
    expect(await after("redact-personal-data", {}, { $ip: "203.113.100.125" })).toEqual([
      { $ip: "203.113.100.125" },
    ]);
  });

  it.each<[text: string, rest: string]>([
    ["01.42.68.53.00 or 415.555.2671", "[redacted] or [redacted]"],
    ['href="tel:+14155552671"', 'href="tel:[redacted]"'],
    ["https://x.test/?p=%2B442079460958&q=1", "https://x.test/?p=[redacted]&q=1"],
    ["5555 5555 5555 4444, 378282246310005", "[redacted], [redacted]"],
    ["jörg.müller@exämple.de", "[redacted]"],
    ["o'brien@example.com", "[redacted]"],
    ["https://x.test/?e=jane%2Bnews%40example.com", "https://x.test/?e=[redacted]"],
  ])("[TP-33] finds all of %s", async (text, rest) => {
    expect(await redacted({}, text)).toEqual([rest]);
  });

  it("[TP-33] takes for addresses what can be one", async () => {
    const text =
      "12:30:45 aa:bb:cc:dd:ee:ff 2001:db8::1 fe80::1 ::1 1:2:3:4:5:6:7:8 10.0.0.1 a::b::c";
    expect(await redacted({ kinds: "addresses" }, text)).toEqual([
      "12:30:45 aa:bb:cc:dd:ee:ff [redacted] [redacted] [redacted] [redacted] [redacted] a::b::c",
    ]);
  });

  it("[TP-33] redacts names of properties at every depth", async () => {
    const given = { "jane@example.com": 1, list: [{ "jane@example.com": 2 }] };
    expect(await after("redact-personal-data", {}, given)).toEqual([
      { "[redacted]": 1, list: [{ "[redacted]": 2 }] },
    ]);
  });
});

describe("clean-url-queries", () => {
  const cleaned = (...values: readonly Json[]) =>
    valuesAfter("clean-url-queries", { properties: "value" }, ...values);

  it("[TP-34] cleans addresses that name no scheme, and credentials in them", async () => {
    expect(await cleaned("www.example.com/a?token=1&b=2", "//u:p@x.test/?token=1&b=2")).toEqual([
      "www.example.com/a?b=2",
      "//x.test/?b=2",
    ]);
    const others = ["$direct", "is that so? token=1", "a.b", ""];
    expect(await cleaned(...others)).toEqual(others);
  });

  it("[TP-34] removes tokens of every kind and lists of what is listed", async () => {
    expect(
      await cleaned("https://x.test/?access_token=1&id_token=2&refresh_token=3&token[]=4&tok=5"),
    ).toEqual(["https://x.test/?tok=5"]);
    expect(await cleaned("https://x.test/?q=tokens&email%5B0%5D=a")).toEqual([
      "https://x.test/?q=tokens",
    ]);
  });
});

describe("parse-user-agent", () => {
  const apple = "AppleWebKit/605.1.15 (KHTML, like Gecko)";
  const blink = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/115.0.0.0";

  it.each([
    [
      `(iPhone; CPU iPhone OS 17_4 like Mac OS X) ${apple} Version/17.4 Mobile/15E148 Safari/604.1`,
      "Mobile Safari",
      17.4,
    ],
    [
      `(iPhone; CPU iPhone OS 17_4 like Mac OS X) ${apple} CriOS/122.0.6261.89 Mobile/15E148 Safari/604.1`,
      "Chrome iOS",
      122,
    ],
    [
      `(iPad; CPU OS 16_1 like Mac OS X) ${apple} FxiOS/110.0 Mobile/15E148 Safari/605.1.15`,
      "Firefox iOS",
      110,
    ],
    [`(Macintosh; Intel Mac OS X 10_15_7) ${apple} Version/17.2 Safari/605.1.15`, "Safari", 17.2],
    [
      `(Linux; Android 13; SM-S918B) ${blink.replace("Chrome", "SamsungBrowser/23.0 Chrome")} Mobile Safari/537.36`,
      "Samsung Internet",
      23,
    ],
    [
      `(Windows NT 10.0; Win64; x64) ${blink} Safari/537.36 Edg/120.0.2210.91`,
      "Microsoft Edge",
      120,
    ],
    [`(X11; Linux x86_64; rv:121.0) Gecko/20100101 Firefox/121.0`, "Firefox", 121],
    [`(Windows NT 10.0; Win64; x64) ${blink} Safari/537.36`, "Chrome", 115],
  ])(
    "[TP-35] names browsers and their versions as posthog-js does: %s",
    async (rest, $browser, $browser_version) => {
      const given = { $raw_user_agent: `Mozilla/5.0 ${rest}` };
      const [found] = await after("parse-user-agent", {}, given);
      expect(found).toMatchObject({ $browser, $browser_version });
    },
  );
});

describe("add-place", () => {
  it("[TP-36] mixes no two places", async () => {
    const given = {
      client: "81.2.69.142",
      $geoip_city_name: "Berlin",
      $geoip_subdivision_1_code: "BE",
      $geoip_subdivision_2_name: "Mitte",
      $geoip_postal_code: "10115",
    };
    const [found] = await after("add-place", { property: "client" }, given);
    expect(found).toMatchObject({ $geoip_country_code: "GB" });
    const text = JSON.stringify(found);
    for (const part of ["Berlin", "BE", "Mitte", "10115"]) expect(text).not.toContain(`"${part}"`);
  });

  it("[TP-36] leaves nothing finer than is wanted, whoever added it and whether or not the address is known", async () => {
    const finer = { $geoip_accuracy_radius: 5, $geoip_city_name: "Berlin", $geoip_latitude: 1 };
    const left = await after(
      "add-place",
      { detail: "country" },
      { $ip: "10.0.0.1", $geoip_country_code: "DE", ...finer },
      { $ip: "no address", $geoip_country_code: "DE", ...finer },
    );
    expect(left.map((one) => Object.keys(one ?? {}))).toEqual([
      ["$ip", "$geoip_country_code"],
      ["$ip", "$geoip_country_code"],
    ]);
  });
});

describe("classify-source", () => {
  it.each<[JsonObject, channel: string, source?: string]>([
    [{ $referrer: "https://accounts.google.com/" }, "Referral", "accounts.google.com"],
    [{ $referrer: "https://docs.google.com/x" }, "Referral", "docs.google.com"],
    [{ $referrer: "https://www.google.de/url?q=1" }, "Organic Search", "google"],
    [{ $referrer: "https://images.google.com/" }, "Organic Search", "google"],
    [{ $referrer: "android-app://com.google.android.gm/" }, "Email", "gmail"],
    [
      { $referrer: "android-app://com.google.android.googlequicksearchbox/" },
      "Organic Search",
      "google",
    ],
    [{ $referrer: "android-app://com.linkedin.android/" }, "Organic Social", "linkedin"],
    [{ utm_source: "email" }, "Email", "email"],
    [{ utm_medium: "e_mail" }, "Email"],
    [{ utm_medium: "E Mail" }, "Email"],
    [{ utm_source: "google", utm_medium: "retargeting" }, "Paid Search", "google"],
    [{ utm_source: "IG", utm_medium: "Paid_Social" }, "Paid Social", "ig"],
    [{ $current_url: "https://x.test/?fbclid=1" }, "Organic Social", "facebook"],
    [{ utm_source: ["x"], utm_medium: 5 }, "Direct"],
    [{ utm_campaign: "c", gclid: "1" }, "Paid Search", "google"],
    [{ utm_campaign: "c", ttclid: "1" }, "Paid Social", "tiktok"],
    [{ utm_source: "news", ttclid: "1" }, "Paid Social", "news"],
  ])("[TP-37] tells that %j is %s", async (given, $channel, source) => {
    const [found] = await after("classify-source", {}, given);
    expect(found).toMatchObject({ $channel, ...(source && { $channel_source: source }) });
  });
});

describe("sample-by-person", () => {
  const devices = Array.from({ length: 40 }, (_, index) => `device ${index}`);
  const visits: Sent[] = devices.map(($device_id) => ({ properties: { $device_id } }));

  it("[TP-38] keeps or drops all events of a person, from whatever device or server", async () => {
    const fates = await run("sample-by-person", { percent: "50" }, ...visits, {});
    expect(new Set(fates.map((event) => event === null)).size).toBe(1);
  });

  it("[TP-38] goes by the device where that is wanted", async () => {
    const settings = { percent: "50", by: "device" };
    const fates = await run("sample-by-person", settings, ...visits);
    const kept = fates.filter((event) => event !== null).length;
    expect(kept).toBeGreaterThan(0);
    expect(kept).toBeLessThan(devices.length);
    const all = { distinctId: "someone", properties: { $device_id: "device 0" } };
    const [again] = await run("sample-by-person", settings, all);
    expect(again === null).toBe(fates[0] === null);
  });
});

describe("split-timestamp", () => {
  it("[TP-39] takes no offset that no clock has", async () => {
    for (const timeZone of ["+99:99", "+14:30", "-05:60"]) {
      await expect(run("split-timestamp", { timeZone }, {})).rejects.toThrow("no time zone");
    }
    const [found] = await run("split-timestamp", { timeZone: "+14", parts: "hour" }, {});
    expect(found?.properties).toEqual({ time_hour: 13 });
  });
});

describe("flatten-version", () => {
  it("[TP-40] reads builds in parentheses, as mobile apps write them", async () => {
    const [found] = await after("flatten-version", { properties: "v" }, { v: "1.2.3 (456)" });
    expect(found).toMatchObject({ v__major: 1, v__patch: 3, v__build: "456" });
  });

  it("[TP-40] sorts a version before its release", async () => {
    const numbers = await after(
      "flatten-version",
      { properties: "v" },
      ...["1.2.2", "1.2.3-rc.1", "1.2.3"].map((v) => ({ v })),
    );
    const sorted = numbers.map((one) => one?.v__number as number);
    expect(sorted).toEqual(sorted.toSorted((a, b) => a - b));
    expect(new Set(sorted).size).toBe(3);
    expect(sorted[2]).toBe(1_002_003);
  });
});

describe("convert-currency", () => {
  const converted = async (settings: JsonObject, ...prices: readonly Json[]) => {
    const found = await after(
      "convert-currency",
      { rates: '{"USD": 1, "EUR": 2}', ...settings },
      ...prices.map((price) => ({ price, currency: "EUR" })),
    );
    return found.map((one) => one?.price_normalized);
  };

  it("[TP-41] reads amounts, and takes no other text for one", async () => {
    const amounts: [Json, number][] = [
      ...([
        ["20", 40],
        ["$1,299.00", 2598],
        ["1.299,00 €", 2598],
        ["12 345,67 €", 24691.34],
      ] as const),
      ...([
        ["CHF 1'299.50", 2599],
        ["-5", -10],
        ["(5.00)", -10],
        ["5 EUR", 10],
        ["EUR5", 10],
      ] as const),
      ...([
        ["0,500", 1],
        ["1,299", 2598],
        ["1.234.567", 2469134],
        [".5", 1],
        ["- 5 €", -10],
      ] as const),
      ...([
        ["US$ 5", 10],
        ["1e3", 2000],
        [0, 0],
        [-1.5, -3],
      ] as const),
    ].map(([price, amount]) => [price, amount]);
    expect(await converted({}, ...amounts.map(([price]) => price))).toEqual(
      amounts.map(([, amount]) => amount),
    );
    const none: Json[] = ["2 x 10.00", "USD 20 (2 items)", "5-10", "1.2.3", "1,2,3", "v5", "5%"];
    expect(await converted({}, ...none, "", true, null)).toEqual(Array(10).fill(undefined));
  });

  it("[TP-41] rounds to two decimals where none are named", async () => {
    expect(await converted({ decimals: "" }, 1.234)).toEqual([2.47]);
  });

  it("[TP-41] finds properties whose names have dots", async () => {
    const settings = { amounts: "item.price" };
    const [found] = await after("convert-currency", settings, { "item.price": 1, currency: "EUR" });
    expect(found).toMatchObject({ "item.price_normalized": 1.08 });
  });
});

describe("guard-schema", () => {
  it("[TP-42] takes no date that no calendar has", async () => {
    const schemas = JSON.stringify({ $pageview: { required: { d: "date" } } });
    const dates = [
      "2026-02-30",
      "2026-02-28",
      "2024-02-29",
      "2026-02-29T10:00:00Z",
      "2026-04-31 10:00",
    ];
    const found = await after("guard-schema", { schemas }, ...dates.map((d) => ({ d })));
    expect(found.map((one) => one?.$schema_valid)).toEqual([false, true, true, false, false]);
  });

  it("[TP-42] knows properties whose names have dots", async () => {
    const schemas = JSON.stringify({ buy: { required: { "a.b": "string" } } });
    const strict = { schemas, unknownProperties: "treat as unfit" };
    const [event] = await run("guard-schema", strict, { event: "buy", properties: { "a.b": "x" } });
    expect(event?.properties).toEqual({ "a.b": "x", $schema_valid: true });
  });

  it("[TP-42] says which schema is none", async () => {
    for (const required of [null, ["amount"], "amount"]) {
      const schemas = JSON.stringify({ buy: { required } });
      await expect(run("guard-schema", { schemas }, {})).rejects.toThrow(
        'The schema of "buy": "required" has to be an object of types by property.',
      );
    }
  });
});

it.each<[name: string, settings: JsonObject]>([
  ["drop-events", { rules: "" }],
  ["classify-source", { rules: "" }],
  ["guard-schema", { schemas: "" }],
])("[TP-30] %s takes an emptied setting for none: %j", async (name, settings) => {
  expect(await after(name, { ...settings, events: "none" }, { a: 1 })).toEqual([{ a: 1 }]);
});

describe("first-touch", () => {
  it("[TP-44] keeps as the last touch what came by a campaign, a click or another site", async () => {
    const settings = { lastTouch: "yes", properties: "utm_campaign, gclid" };
    const touches = await after(
      "first-touch",
      settings,
      { $current_url: "https://x.test/?gclid=1" },
      { $current_url: "https://x.test/?utm_campaign=c" },
      { utm_medium: "email" },
      { $current_url: "https://x.test/?utm_source=c", utm_source: "" },
      { $current_url: "https://x.test/", $referrer: "https://blog.example/" },
      { $current_url: "https://x.test/", $referrer: "https://www.x.test/a" },
      { $current_url: "https://x.test/", $referrer: "$direct" },
    );
    expect(touches.map((one) => one?.$set !== undefined)).toEqual([
      ...[true, true, true, true, true],
      ...[false, false],
    ]);
  });
});
