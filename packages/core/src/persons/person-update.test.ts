import { describe, expect, it } from "vitest";
import type { CapturedEvent } from "../events/event.ts";
import type { JsonObject } from "../json.ts";
import { effectiveTimeMs, personUpdateOf, touchedIds } from "./person-update.ts";
import { PropertySheet } from "./property-sheet.ts";

const event = (
  properties: JsonObject = {},
  fields: Partial<CapturedEvent> = {},
): CapturedEvent => ({
  uuid: "0192a000-0000-7000-8000-000000000000",
  projectId: 1,
  event: "clicked",
  distinctId: "ada",
  properties,
  timestamp: new Date("2026-05-01T12:00:00Z"),
  clientTimestamp: null,
  receivedAt: new Date("2026-05-01T12:00:01Z"),
  ...fields,
});
const updateOf = (...args: Parameters<typeof event>) => personUpdateOf(event(...args));
const changesOf = (...args: Parameters<typeof event>) => {
  const { changes } = updateOf(...args);
  const sheet = new PropertySheet();
  sheet.apply({ ...changes, unset: [] }, 0);
  const { properties, times } = sheet.state;
  const valuesOf = (names: object) =>
    Object.fromEntries(Object.keys(names).map((name) => [name, properties[name]]));
  return { set: valuesOf(times.set), setOnce: valuesOf(times.setOnce), unset: changes.unset };
};

describe("what an event says of its person", () => {
  it("[PE-3] is in $set, $set_once and $unset, the last as a list or as an object", () => {
    expect(changesOf({ $set: { a: 1 }, $set_once: { b: null }, $unset: ["c", 4, "d"] })).toEqual({
      set: { a: 1 },
      setOnce: { b: null },
      unset: ["c", "d"],
    });
    expect(changesOf({ $unset: { c: "", constructor: 1 } }).unset).toEqual(["c", "constructor"]);
  });

  it.each([null, "text", 7, true, ["a"]])("[PE-3] is nothing in a $set of %j", (value) => {
    expect(changesOf({ $set: value, $set_once: value, $unset: "plan" })).toEqual({
      set: {},
      setOnce: {},
      unset: [],
    });
  });

  it("[PE-6] is also its browser, system and campaign: latest, and initial once", () => {
    expect(
      changesOf({ $browser: "Firefox", utm_source: "mail", $referrer: null, $lib: "web", plan: 1 }),
    ).toEqual({
      set: { $browser: "Firefox", utm_source: "mail", $referrer: null },
      setOnce: {
        $initial_browser: "Firefox",
        $initial_utm_source: "mail",
        $initial_referrer: null,
      },
      unset: [],
    });
  });

  it("[PE-6] is what it sets by name before what it carries along", () => {
    const { set, setOnce } = changesOf({
      $browser: "Firefox",
      $set: { $browser: "Lynx" },
      $set_once: { $initial_browser: "Mosaic" },
    });
    expect([set.$browser, setOnce.$initial_browser]).toEqual(["Lynx", "Mosaic"]);
  });

  it("[PE-6] takes $os_name for $os where that is missing", () => {
    expect(changesOf({ $os_name: "iOS" }).set).toEqual({ $os: "iOS" });
    expect(changesOf({ $os_name: "iOS", $os: "iPadOS" }).set).toEqual({ $os: "iPadOS" });
  });

  it("[PE-6] is its place, unless the event forbids look-ups", () => {
    const place = { $geoip_country_code: "NL" };
    expect(changesOf(place)).toMatchObject({
      set: place,
      setOnce: { $initial_geoip_country_code: "NL" },
    });
    expect(changesOf({ ...place, $geoip_disable: true }).set).toEqual({});
    const { changes } = personUpdateOf(event({ $os: "iOS" }), place);
    const { names = [], values = [] } = changes.automatic ?? {};
    expect(names.map(({ name }, at) => [name, values[at]])).toEqual([
      ["$os", "iOS"],
      ["$geoip_country_code", "NL"],
    ]);
  });

  it("[PE-6] is nothing of that for recordings", () => {
    expect(changesOf({ $os: "iOS", $set: { a: 1 } }, { event: "$snapshot" })).toMatchObject({
      set: { a: 1 },
      setOnce: {},
    });
  });

  it("[PE-2] is nothing when it is personless", () => {
    const properties = { $process_person_profile: false, $set: { a: 1 }, $groups: { org: "1" } };
    expect(updateOf(properties)).toMatchObject({ keepsPerson: false, groupTypes: [] });
    expect(changesOf(properties)).toEqual({ set: {}, setOnce: {}, unset: [] });
    expect(updateOf({ $process_person_profile: "false" }).keepsPerson).toBe(true);
  });

  it("[PE-2] warns of personless events that only make sense with a person", () => {
    const quiet = { $process_person_profile: false };
    const names = ["$identify", "$create_alias", "$merge_dangerously", "$groupidentify"];
    for (const name of names) {
      expect(
        updateOf({ ...quiet, $anon_distinct_id: "x", alias: "x" }, { event: name }),
      ).toMatchObject({
        link: null,
        group: null,
        warnings: ["invalid_event_when_process_person_profile_is_false"],
      });
    }
    expect(updateOf(quiet).warnings).toEqual([]);
  });

  it("[PE-5] counts from the time it happened, or from its arrival if that is earlier", () => {
    const receivedAt = new Date("2026-05-01T12:00:00Z");
    const at = (timestamp: string) =>
      new Date(
        effectiveTimeMs(event({}, { timestamp: new Date(timestamp), receivedAt })),
      ).toISOString();
    expect(at("2020-01-01T00:00:00Z")).toBe("2020-01-01T00:00:00.000Z");
    expect(at("2026-05-01T12:30:00Z")).toBe("2026-05-01T12:00:00.000Z");
  });
});

describe("links between ids", () => {
  const link = (name: string, properties: JsonObject, distinctId = "ada") =>
    updateOf(properties, { event: name, distinctId });

  it("[PE-7] come from $identify, $create_alias and $merge_dangerously alone", () => {
    const both = { $anon_distinct_id: "anon", alias: "alias" };
    expect(link("$identify", both).link).toEqual({
      otherId: "anon",
      evenIfIdentified: false,
      isIdentification: true,
    });
    expect(link("$create_alias", both).link).toEqual({
      otherId: "alias",
      evenIfIdentified: false,
      isIdentification: false,
    });
    expect(link("$merge_dangerously", both).link).toMatchObject({ evenIfIdentified: true });
    expect(link("clicked", both).link).toBeNull();
  });

  it("[PE-7] need another id", () => {
    expect(link("$identify", {}).link).toBeNull();
    expect(link("$identify", { $anon_distinct_id: null })).toMatchObject({
      link: null,
      warnings: [],
    });
    expect(link("$identify", { $anon_distinct_id: "ada" }).link).toBeNull();
  });

  it("[PE-9] are refused, with a warning, by ids that stand for nobody", () => {
    const refused = { link: null, warnings: ["cannot_merge_with_illegal_distinct_id"] };
    expect(link("$identify", { $anon_distinct_id: "Undefined" })).toMatchObject(refused);
    expect(link("$create_alias", { alias: "" })).toMatchObject(refused);
    expect(link("$merge_dangerously", { alias: "anon" }, "null")).toMatchObject(refused);
    expect(link("$identify", { $anon_distinct_id: "anon" }, "guest").keepsPerson).toBe(true);
  });

  it("[PE-7] read the other id as capture reads distinct ids", () => {
    const idOf = (id: JsonObject[string]) => link("$create_alias", { alias: id }).link?.otherId;
    expect(idOf(42)).toBe("42");
    expect(idOf({ a: 1 })).toBe('{"a":1}');
    expect(idOf("a\0b")).toBe("a\uFFFDb");
    expect(idOf("😀".repeat(250))).toBe("😀".repeat(200));
  });
});

describe("groups", () => {
  const identify = (properties: JsonObject, distinctId = "ada") =>
    updateOf(properties, { event: "$groupidentify", distinctId });

  it("[PE-16] get properties from $groupidentify, whose key may be a number", () => {
    const update = identify({ $group_type: "org", $group_key: 0, $group_set: { a: 1 } });
    expect(update.group).toMatchObject({ type: "org", key: "0" });
    expect(update.group?.changes.set).toEqual(new Map([["a", 1]]));
    expect(update.groupTypes).toEqual(["org"]);
    expect(update.keepsPerson).toBe(true);
  });

  it("[PE-16] do not become persons under the ids that SDKs make up for them", () => {
    const org = { $group_type: "org", $group_key: "acme" };
    expect(identify(org, "$org_acme").keepsPerson).toBe(false);
    expect(identify(org, "$org_other").keepsPerson).toBe(true);
  });

  it.each([
    {},
    { $group_type: "org" },
    { $group_type: "", $group_key: "a" },
    { $group_type: "org", $group_key: "" },
    { $group_type: "org", $group_key: true },
    { $group_type: 5, $group_key: "a" },
    { $group_type: "org", $group_key: "x".repeat(401) },
  ])("[PE-16] need a type and a key of a possible length: %j", (properties) => {
    expect(identify(properties)).toMatchObject({ group: null, warnings: ["invalid_group"] });
  });

  it("[PE-15] have their types learned from every event that mentions them", () => {
    const groups = { org: "acme", seat: 7, none: null, empty: "", ["x".repeat(401)]: "long" };
    expect(updateOf({ $groups: groups })).toMatchObject({
      groupTypes: ["org", "seat"],
      warnings: ["invalid_group"],
    });
    expect(updateOf({ $groups: ["org"] }).groupTypes).toEqual([]);
  });
});

describe("the ids an event touches", () => {
  it("are its own, the one it links and the group it describes", () => {
    expect(touchedIds(event())).toEqual({ distinctIds: ["ada"], group: null });
    expect(touchedIds(event({ $anon_distinct_id: "anon" }, { event: "$identify" }))).toEqual({
      distinctIds: ["ada", "anon"],
      group: null,
    });
    const org = { $group_type: "org", $group_key: 1 };
    expect(touchedIds(event(org, { event: "$groupidentify", distinctId: "$org_1" }))).toEqual({
      distinctIds: [],
      group: { type: "org", key: "1" },
    });
    expect(touchedIds(event({ $process_person_profile: false }))).toEqual({
      distinctIds: [],
      group: null,
    });
  });
});
