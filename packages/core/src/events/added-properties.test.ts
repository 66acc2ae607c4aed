import { expect, it } from "vitest";
import { wholeEntry } from "./added-properties.ts";
import { decodeEvent, encodeWithText } from "./event-codec.ts";

const event = decodeEvent(
  `[1,"01a221eb-98b2-72fa-8939-000000000001","seen","anna",1700000000000,null,1700000000000,{"a":1}]`,
);

it("[PI-45] what was added to an event is joined to its own properties and their text", () => {
  const properties = { $geoip_city_name: "Köln" };
  const added = { properties, text: JSON.stringify(properties) };
  const { propertiesText } = encodeWithText(event);
  const whole = { ...event, properties: { a: 1, $geoip_city_name: "Köln" } };
  expect(wholeEntry({ position: 1, event, added, propertiesText })).toEqual({
    position: 1,
    event: whole,
    propertiesText: JSON.stringify(whole.properties),
  });
  expect(wholeEntry({ position: 1, event, added })).toEqual({ position: 1, event: whole });
  const entry = { position: 1, event, propertiesText };
  expect(wholeEntry(entry)).toBe(entry);
  expect(event.properties).toEqual({ a: 1 });
});
