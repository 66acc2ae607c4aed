import { randomUUID } from "node:crypto";
import type { Browser } from "playwright-core";
import { afterAll, describe, expect, test } from "vitest";
import { launchBrowser, type WatchedPage, WHY_NO_BROWSER, watch } from "./browser.ts";
import { type CustomerSite, openCustomerSite, SDK_PAGES, type SdkPage } from "./customer-site.ts";
import { eventually } from "./eventually.ts";
import {
  everyone,
  groupIs,
  type Management,
  openManagement,
  personIs,
  variants,
  where,
  whereGroup,
} from "./management.ts";
import { postJson } from "./raw-http.ts";
import { PROJECT_KEY, type ServerUnderTest, serveTests } from "./server-under-test.ts";

/** Event batches wait three seconds in the SDK of 2024; most tests would wait with them. */
const UNBATCHED = { request_batching: false };

const title = WHY_NO_BROWSER === null ? "in Chromium" : `in Chromium (skipped: ${WHY_NO_BROWSER})`;

describe.skipIf(WHY_NO_BROWSER !== null)(title, () => {
  let server: ServerUnderTest;
  let management: Management;
  let site: CustomerSite;
  let browser: Browser;

  serveTests(async (started) => {
    server = started;
    management = openManagement(server);
    [site, browser] = await Promise.all([openCustomerSite(server.url), launchBrowser()]);
    await management.createFlag("on");
    await management.createFlag("off", everyone(0));
    await management.createFlag(
      "colour",
      variants({ red: 0, green: 100 }, { payloads: { green: '{"hex":"#0f0"}' } }),
    );
    await management.createFlag("gold-only", where(personIs("tier", "exact", ["gold"])));
    await postJson(server, "/capture/", {
      api_key: PROJECT_KEY,
      event: "$groupidentify",
      distinct_id: "setup",
      properties: { $group_type: "company", $group_key: "acme", $group_set: { seats: 50 } },
    });
    await management.createFlag("big-companies", whereGroup(groupIs("seats", "gt", "10")));
    await management.createFlag("steady-look", variants({ a: 50, b: 50 }), {
      ensure_experience_continuity: true,
    });
    await management.createFlag("joinable", { ...everyone(0), feature_enrollment: true });
    await management.createFlag("joinable-once", {
      ...everyone(0),
      super_groups: [
        {
          properties: [
            {
              key: "$feature_enrollment/joinable-once",
              type: "person",
              operator: "exact",
              value: ["true"],
            },
          ],
          rollout_percentage: 100,
        },
      ],
    });
  });
  afterAll(async () => {
    await browser?.close();
    await site?.close();
  });

  /** A page in a browser profile of its own, with the SDK started and its flags there. */
  async function openPage(
    sdk: SdkPage,
    settings: Record<string, unknown> = UNBATCHED,
  ): Promise<WatchedPage> {
    const context = await browser.newContext();
    const watched = watch(await context.newPage(), server.url);
    await watched.page.goto(site.page(sdk, settings));
    await flagsArrived(watched);
    return watched;
  }

  async function flagsArrived({ page, problems }: WatchedPage, calls = 1): Promise<void> {
    await page
      .waitForFunction((least) => window.flagCalls.length >= least, calls)
      .catch((cause: unknown) => {
        throw new Error(`no flags arrived; problems: ${problems.join("; ") || "none"}`, { cause });
      });
  }

  /** Does something on the page after which the SDK asks for flags, and waits for the answer. */
  async function reloadingFlags(watched: WatchedPage, act: () => Promise<unknown>): Promise<void> {
    const before = await watched.page.evaluate(() => window.flagCalls.length);
    await act();
    await flagsArrived(watched, before + 1);
  }

  const flag = ({ page }: WatchedPage, key: string) =>
    page.evaluate((asked) => window.posthog.getFeatureFlag(asked), key);

  const distinctIdOn = ({ page }: WatchedPage) =>
    page.evaluate(() => window.posthog.get_distinct_id());

  /** The value of a flag as another device of the same person gets it. */
  async function flagElsewhere(key: string, distinctId: string): Promise<unknown> {
    const { body } = await postJson(server, "/decide/?v=3", {
      api_key: PROJECT_KEY,
      distinct_id: distinctId,
    });
    return (body.featureFlags as Record<string, unknown>)[key];
  }

  describe.each(SDK_PAGES)("the SDK from %s", (sdk) => {
    test("[CP-13] flags, variants and payloads arrive without an error", async () => {
      const watched = await openPage(sdk);
      const { page, exchanges, problems } = watched;
      expect(
        await page.evaluate(() => ({
          on: window.posthog.getFeatureFlag("on"),
          off: window.posthog.getFeatureFlag("off"),
          colour: window.posthog.getFeatureFlag("colour"),
          enabled: window.posthog.isFeatureEnabled("colour"),
          disabled: window.posthog.isFeatureEnabled("off"),
        })),
      ).toEqual({ on: true, off: false, colour: "green", enabled: true, disabled: false });
      // The SDK of 2024 hands payloads over as the text they are stored as.
      const payload = await page.evaluate(() => window.posthog.getFeatureFlagPayload("colour"));
      expect(typeof payload === "string" ? JSON.parse(payload) : payload).toEqual({ hex: "#0f0" });
      const calls = await page.evaluate(() => window.flagCalls);
      expect(calls.at(-1)?.flags).toEqual(expect.arrayContaining(["on", "colour"]));
      expect(calls.at(-1)?.flags).not.toContain("off");
      const [asked] = exchanges.filter(({ url }) => /^\/(flags|decide)\//.test(url.pathname));
      expect(asked?.url.pathname).toBe(sdk === "npm-2024" ? "/decide/" : "/flags/");

      const distinctId = await distinctIdOn(watched);
      const called = await management.eventsArrived(
        { distinct_id: distinctId, event: "$feature_flag_called" },
        3,
      );
      expect(
        Object.fromEntries(
          called.map(({ properties }) => [
            properties.$feature_flag,
            properties.$feature_flag_response,
          ]),
        ),
      ).toEqual({ on: true, off: false, colour: "green" });
      expect(problems).toEqual([]);
    });

    test("[CP-13] properties and groups set on the page change the answers", async () => {
      const watched = await openPage(sdk);
      const { page, problems } = watched;
      expect(await flag(watched, "gold-only")).toBe(false);
      await reloadingFlags(watched, () =>
        page.evaluate(() => window.posthog.setPersonPropertiesForFlags({ tier: "gold" })),
      );
      expect(await flag(watched, "gold-only")).toBe(true);

      expect(await flag(watched, "big-companies")).toBe(false);
      await reloadingFlags(watched, () =>
        page.evaluate(() => window.posthog.group("company", "acme")),
      );
      expect(await flag(watched, "big-companies")).toBe(true);
      await reloadingFlags(watched, () =>
        page.evaluate(() => window.posthog.setGroupPropertiesForFlags({ company: { seats: 3 } })),
      );
      expect(await flag(watched, "big-companies")).toBe(false);
      expect(problems).toEqual([]);
    });

    test("[CP-14] events arrive with what the page and the SDK say about them", async () => {
      const watched = await openPage(sdk);
      const { page, problems, exchanges } = watched;
      const distinctId = await distinctIdOn(watched);
      await page.evaluate(() => window.posthog.capture("bought", { price: 12.5, where: "Zürich" }));
      const [bought] = await management.eventsArrived({ distinct_id: distinctId, event: "bought" });
      expect(bought?.properties).toMatchObject({
        price: 12.5,
        where: "Zürich",
        $lib: "web",
        $current_url: page.url(),
        $browser: "Chrome",
        "$feature/colour": "green",
        "$feature/off": false,
      });
      expect(bought?.properties.$active_feature_flags).toEqual(
        expect.arrayContaining(["on", "colour"]),
      );
      expect(Math.abs(Date.parse(bought?.timestamp ?? "") - Date.now())).toBeLessThan(60_000);
      const viewed = await management.eventsArrived({
        distinct_id: distinctId,
        event: "$pageview",
      });
      expect(viewed).toHaveLength(1);
      if (sdk === "snippet") {
        const [early] = await management.eventsArrived({
          distinct_id: distinctId,
          event: "captured before the SDK was there",
        });
        expect(early?.properties.early).toBe(true);
      }
      const sent = exchanges.filter(({ method, url }) => method === "POST" && isCapture(url));
      expect(sent.length).toBeGreaterThan(1);
      expect(sent.map(({ status }) => status)).toEqual(sent.map(() => 200));
      expect(problems).toEqual([]);
    });

    test("[CP-14] compressed and plain events are the same", async () => {
      const compressed = await openPage(sdk);
      const plain = await openPage(sdk, { ...UNBATCHED, disable_compression: true });
      for (const watched of [compressed, plain]) {
        const distinctId = await distinctIdOn(watched);
        await watched.page.evaluate(() =>
          window.posthog.capture("sized", { text: "ü".repeat(5000) }),
        );
        const [sized] = await management.eventsArrived({ distinct_id: distinctId, event: "sized" });
        expect(sized?.properties.text).toBe("ü".repeat(5000));
        expect(watched.problems).toEqual([]);
      }
      const usesGzip = ({ exchanges }: WatchedPage) =>
        exchanges.some(
          ({ url, body }) =>
            isCapture(url) &&
            (url.searchParams.get("compression") === "gzip-js" || body?.readUInt16BE(0) === 0x1f8b),
        );
      expect(usesGzip(compressed)).toBe(true);
      expect(usesGzip(plain)).toBe(false);
    });

    test("[CP-14] events still waiting when a page is left arrive as a beacon", async () => {
      const watched = await openPage(sdk, { request_batching: true });
      const distinctId = await distinctIdOn(watched);
      await watched.page.evaluate(() => {
        for (let index = 0; index < 20; index++) window.posthog.capture("left behind", { index });
      });
      await watched.page.goto(site.emptyPage);
      const stored = await management.eventsArrived(
        { distinct_id: distinctId, event: "left behind" },
        20,
      );
      expect(new Set(stored.map(({ properties }) => properties.index)).size).toBe(20);
      await management.eventsArrived({ distinct_id: distinctId, event: "$pageleave" });
      expect(watched.problems).toEqual([]);
    });

    test("[CP-15] a visitor keeps the variant when identified, here and on other devices", async () => {
      const watched = await openPage(sdk);
      const { page, problems } = watched;
      const variant = await flag(watched, "steady-look");
      expect(["a", "b"]).toContain(variant);
      const user = await idWithOtherVariant(variant);

      await reloadingFlags(watched, () =>
        page.evaluate((id) => window.posthog.identify(id, { tier: "gold" }), user),
      );
      expect(await flag(watched, "steady-look")).toBe(variant);
      await management.eventsArrived({ distinct_id: user, event: "$identify" });
      expect(await flagElsewhere("steady-look", user)).toBe(variant);
      expect(await flagElsewhere("gold-only", user)).toBe(true);

      await page.reload();
      await flagsArrived(watched);
      expect(await distinctIdOn(watched)).toBe(user);
      expect(await flag(watched, "steady-look")).toBe(variant);
      expect(problems).toEqual([]);
    });

    test("[CP-16] people join and leave early-access features of both forms", async () => {
      const watched = await openPage(sdk);
      const { page, problems } = watched;
      const features = await page.evaluate(
        () =>
          new Promise<readonly Record<string, unknown>[]>((resolve) => {
            window.posthog.getEarlyAccessFeatures(resolve, true);
          }),
      );
      expect(features.map(({ flagKey }) => flagKey).sort()).toEqual(["joinable", "joinable-once"]);
      for (const feature of features) {
        expect(feature).toMatchObject({ stage: "beta", name: expect.any(String) });
        expect(feature).toHaveProperty("description");
        expect(feature).toHaveProperty("documentationUrl");
      }

      const user = `user-${randomUUID()}`;
      await reloadingFlags(watched, () => page.evaluate((id) => window.posthog.identify(id), user));
      for (const key of ["joinable", "joinable-once"]) {
        expect(await flag(watched, key)).toBe(false);
        for (const isEnrolled of [true, false]) {
          await page.evaluate(
            ([joined, enrolled]) =>
              window.posthog.updateEarlyAccessFeatureEnrollment(joined, enrolled),
            [key, isEnrolled] as const,
          );
          expect(await flag(watched, key)).toBe(isEnrolled);
          await eventually("the choice to be stored", async () => {
            const stored = await management.events({
              distinct_id: user,
              event: "$feature_enrollment_update",
            });
            return stored.some(
              ({ properties }) =>
                properties.$feature_flag === key && properties.$feature_enrollment === isEnrolled,
            );
          });
          expect(await flagElsewhere(key, user)).toBe(isEnrolled);
          await reloadingFlags(watched, () =>
            page.evaluate(() => window.posthog.reloadFeatureFlags()),
          );
          expect(await flag(watched, key)).toBe(isEnrolled);
        }
      }
      expect(problems).toEqual([]);
    });
  });

  test("[CP-15] events from before and after identification belong to one person", async () => {
    const watched = await openPage("npm", { ...UNBATCHED, person_profiles: "always" });
    const anonymous = await distinctIdOn(watched);
    await management.eventsArrived({ distinct_id: anonymous, event: "$pageview" });
    const user = `user-${randomUUID()}`;
    await watched.page.evaluate((id) => {
      window.posthog.identify(id);
      window.posthog.capture("logged in");
    }, user);
    const [after] = await management.eventsArrived({ distinct_id: user, event: "logged in" });
    expect(after?.person?.uuid).toBeTypeOf("string");
    await eventually("the earlier event to have the same person", async () => {
      const [before] = await management.events({ distinct_id: anonymous, event: "$pageview" });
      return before?.person?.uuid === after?.person?.uuid;
    });
  });

  test("[CP-8] a changed flag has its new value on the next load of the page", async () => {
    const key = "changing";
    const created = await management.createFlag(key, everyone(0));
    const watched = await openPage("snippet");
    expect(await flag(watched, key)).toBe(false);
    await management.patchFlag(created.id, { filters: everyone(100) });
    await reloadingFlags(watched, () =>
      watched.page.evaluate(() => window.posthog.reloadFeatureFlags()),
    );
    expect(await flag(watched, key)).toBe(true);
    await management.patchFlag(created.id, { filters: everyone(0) });
    await watched.page.reload();
    await flagsArrived(watched);
    expect(await flag(watched, key)).toBe(false);
  });

  test("[CP-17] settings are loaded as a script, and as JSON where scripts are blocked", async () => {
    const open = await openPage("npm");
    const configOf = ({ exchanges }: WatchedPage) =>
      exchanges.filter(({ url }) => url.pathname.startsWith("/array/"));
    expect(configOf(open).map(({ url, status }) => [url.pathname, status])).toEqual([
      [`/array/${PROJECT_KEY}/config.js`, 200],
    ]);

    const context = await browser.newContext();
    const blocked = watch(await context.newPage(), server.url);
    await blocked.page.route("**/config.js*", (route) => route.abort("blockedbyclient"));
    await blocked.page.goto(site.page("npm", UNBATCHED));
    await flagsArrived(blocked);
    expect(configOf(blocked).map(({ url, status }) => [url.pathname, status])).toEqual([
      [`/array/${PROJECT_KEY}/config`, 200],
    ]);
    expect(await flag(blocked, "colour")).toBe("green");
  });

  test("[CP-17] the first flag of a project is there on the next load of the page", async () => {
    const { body: organization } = await management.call("GET", "/api/organizations/@current/");
    const { body: project } = await management.call(
      "POST",
      `/api/organizations/${organization.id}/projects/`,
      { name: "New" },
    );
    const context = await browser.newContext();
    const watched = watch(await context.newPage(), server.url);
    await watched.page.goto(site.page("snippet", UNBATCHED, String(project.api_token)));
    await watched.page.waitForFunction(() => window.posthog.__loaded === true);
    await eventually("the settings to be loaded", () =>
      watched.exchanges.some(({ url }) => url.pathname.endsWith("/config.js")),
    );
    await management.call("POST", `/api/projects/${project.id}/feature_flags/`, {
      key: "first",
      filters: everyone(),
    });
    await watched.page.reload();
    await flagsArrived(watched);
    expect(await flag(watched, "first")).toBe(true);
    expect(watched.problems).toEqual([]);
  });

  test("[CP-18] any page may call with any header, and reads refusals too", async () => {
    const context = await browser.newContext();
    const { page } = watch(await context.newPage(), server.url);
    await page.goto(site.emptyPage);
    const answers = await page.evaluate(
      async ([api, token]) => {
        const headers = {
          "content-type": "application/json",
          baggage: "sentry-trace_id=1",
          traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
          "x-datadog-origin": "rum",
          "x-nobody-knows-this": "1",
        };
        const ask = async (path: string, body: unknown, credentials: RequestCredentials) => {
          const response = await fetch(api + path, {
            method: "POST",
            headers,
            credentials,
            body: JSON.stringify(body),
          });
          return { status: response.status, body: await response.json() };
        };
        const person = { api_key: token, distinct_id: "cors" };
        return {
          flags: await ask("/flags/?v=2", person, "include"),
          decide: await ask("/decide?v=3", person, "omit"),
          capture: await ask("/i/v0/e/", { ...person, event: "from afar" }, "include"),
          wrongKey: await ask("/flags/?v=2", { ...person, api_key: "phc_wrong" }, "include"),
          noPerson: await ask("/decide/?v=3", { api_key: token }, "omit"),
          noEvent: await ask("/capture/", { api_key: token, distinct_id: "x" }, "omit"),
        };
      },
      [server.url, PROJECT_KEY] as const,
    );
    expect(answers.flags.body.flags.colour.variant).toBe("green");
    expect(answers.decide.body.featureFlags.colour).toBe("green");
    expect(answers.capture).toMatchObject({ status: 200 });
    expect(answers.wrongKey).toMatchObject({ status: 401, body: { code: "invalid_api_key" } });
    expect(answers.noPerson).toMatchObject({ status: 400, body: { code: "missing_distinct_id" } });
    expect(answers.noEvent).toMatchObject({ status: 400, body: { type: "validation_error" } });
  });

  test("[CP-9] with a wrong key a page gets no flags and no exception", async () => {
    const context = await browser.newContext();
    const { page, problems } = watch(await context.newPage(), server.url);
    await page.goto(site.emptyPage);
    await page.addScriptTag({ url: `${server.url}/static/array.js` });
    await page.evaluate((api) => {
      window.flagCalls = [];
      const sdk = window.posthog as unknown as { init(token: string, settings: object): void };
      sdk.init("phc_ofSomebodyElse0123456789", { api_host: api, opt_out_useragent_filter: true });
      window.posthog.onFeatureFlags((flags, values) => window.flagCalls.push({ flags, values }));
    }, server.url);
    await page.waitForFunction(() => window.flagCalls.length > 0);
    expect(await page.evaluate(() => window.flagCalls.at(-1)?.flags)).toEqual([]);
    expect(problems.filter((problem) => problem.startsWith("uncaught"))).toEqual([]);
    expect(problems.join("\n")).toContain("401");
  });

  /** An id nothing is stored of, whose own variant of the continuity flag is another. */
  async function idWithOtherVariant(variant: unknown): Promise<string> {
    for (;;) {
      const id = `user-${randomUUID()}`;
      if ((await flagElsewhere("steady-look", id)) !== variant) return id;
    }
  }
});

function isCapture(url: URL): boolean {
  return /^\/(e|i\/v0\/e|capture|batch)\/$/.test(url.pathname);
}
