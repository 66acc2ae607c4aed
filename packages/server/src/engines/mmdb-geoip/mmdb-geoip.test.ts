import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openGeoIp } from "./mmdb-geoip.ts";
import { placeProperties, placeRecord } from "./place-properties.ts";

const reportFault = (error: unknown) => {
  throw error;
};

describe("places of addresses", () => {
  it("[GE-4] come with the seven documented properties, from the database that is built in", async () => {
    const geoIp = await openGeoIp({ path: null, reportFault });
    expect(await geoIp.lookup("81.2.69.142")).toEqual({
      $geoip_city_name: expect.any(String),
      $geoip_country_name: "United Kingdom",
      $geoip_country_code: "GB",
      $geoip_continent_name: "Europe",
      $geoip_continent_code: "EU",
      $geoip_postal_code: expect.any(String),
      $geoip_time_zone: "Europe/London",
    });
    expect(await geoIp.lookup("2001:4860:4860::8888")).toMatchObject({ $geoip_country_code: "US" });
  });

  it("[GE-4] leave out what is not known, and know nothing of private addresses and other text", async () => {
    const geoIp = await openGeoIp({ path: null, reportFault });
    expect(await geoIp.lookup("8.8.8.8")).not.toHaveProperty("$geoip_city_name");
    for (const address of ["127.0.0.1", "10.0.0.1", "::1", "fe80::1", "", "nonsense"]) {
      expect(await geoIp.lookup(address)).toEqual({});
    }
  });

  it("[GE-4] are the same for the same address, however it is written", async () => {
    const geoIp = await openGeoIp({ path: null, reportFault });
    const place = await geoIp.lookup("81.2.69.142");
    for (const address of ["::ffff:81.2.69.142", "::ffff:5102:458e", "81.2.69.142:443"]) {
      expect(geoIp.lookup(address)).toEqual(place);
    }
  });

  it("[GE-4] of private addresses need no database", async () => {
    const geoIp = await openGeoIp({ path: null, reportFault });
    expect(geoIp.lookup("192.168.1.1")).toEqual({});
  });

  it("[GE-4] are found at once when the database has been read", async () => {
    const geoIp = await openGeoIp({ path: null, reportFault });
    await geoIp.lookup("8.8.8.8");
    expect(geoIp.lookup("8.8.8.8")).not.toBeInstanceOf(Promise);
  });

  it("[GE-5] are read from MaxMind's own records as well", () => {
    expect(
      placeProperties({
        city: { names: { en: "Utrecht", de: "Utrecht" } },
        continent: { code: "EU", names: { en: "Europe" } },
        country: { iso_code: "NL", names: { en: "Netherlands" } },
        postal: { code: "3511" },
        location: { time_zone: "Europe/Amsterdam" },
      }),
    ).toEqual({
      $geoip_city_name: "Utrecht",
      $geoip_country_name: "Netherlands",
      $geoip_country_code: "NL",
      $geoip_continent_name: "Europe",
      $geoip_continent_code: "EU",
      $geoip_postal_code: "3511",
      $geoip_time_zone: "Europe/Amsterdam",
    });
  });

  it("[GE-5] refuses to start with a file that is no database", async () => {
    const path = join(mkdtempSync(join(tmpdir(), "hedgerow-geo-")), "bad.mmdb");
    writeFileSync(path, "not a database");
    await expect(openGeoIp({ path, reportFault })).rejects.toThrow("is not a readable .mmdb file");
  });

  it("[TP-16] are told to transformations as MaxMind's library tells them, from either shape", async () => {
    const geoIp = await openGeoIp({ path: null, reportFault });
    expect(await geoIp.locate("81.2.69.142")).toMatchObject({
      city: { names: { en: expect.any(String) } },
      country: { isoCode: "GB", names: { en: "United Kingdom" } },
      continent: { code: "EU", names: { en: "Europe" } },
      location: {
        latitude: expect.any(Number),
        longitude: expect.any(Number),
        timeZone: "Europe/London",
      },
      subdivisions: [{ names: { en: "England" } }, { names: { en: expect.any(String) } }],
    });
    expect(await geoIp.locate("10.0.0.1")).toBeNull();
    expect(await geoIp.locate("nonsense")).toBeNull();
    expect(
      placeRecord({
        country: { iso_code: "NL", names: { en: "Netherlands" } },
        location: {
          latitude: 52.09,
          longitude: 5.1,
          accuracy_radius: 20,
          time_zone: "Europe/Amsterdam",
        },
        subdivisions: [{ iso_code: "UT", names: { en: "Utrecht" } }],
      }),
    ).toEqual({
      country: { isoCode: "NL", names: { en: "Netherlands" } },
      continent: { code: "EU", names: { en: "Europe" } },
      location: {
        latitude: 52.09,
        longitude: 5.1,
        accuracyRadius: 20,
        timeZone: "Europe/Amsterdam",
      },
      subdivisions: [{ isoCode: "UT", names: { en: "Utrecht" } }],
    });
    expect(placeRecord(undefined)).toBeNull();
  });
});
