import type { FastifyRequest } from "fastify";
import { describe, expect, it } from "vitest";
import { networks } from "../platform/network-address.ts";
import { clientAddressOf, geoAddressOf } from "./client-address.ts";

const request = (ip: string, headers: Record<string, string> = {}) =>
  ({ ip, headers }) as unknown as FastifyRequest;

describe("the address a flag request is evaluated for", () => {
  it("[GE-2] is the first public one of the literal header, before all others", () => {
    const headers = {
      http_x_forwarded_for: "10.0.0.1, 81.2.69.142, 8.8.8.8",
      "x-forwarded-for": "8.8.4.4",
    };
    expect(geoAddressOf(request("127.0.0.1", headers))).toBe("81.2.69.142");
  });

  it("[GE-2] may come under the name that proxies make of the literal header", () => {
    expect(geoAddressOf(request("127.0.0.1", { "http-x-forwarded-for": "81.2.69.142" }))).toBe(
      "81.2.69.142",
    );
  });

  it("[GE-2] is taken from X-Forwarded-For without a trusted proxy, and else is the peer's", () => {
    expect(geoAddressOf(request("8.8.8.8", { "x-forwarded-for": "81.2.69.142" }))).toBe(
      "81.2.69.142",
    );
    expect(geoAddressOf(request("8.8.8.8", { "x-forwarded-for": "garbage, 10.0.0.1" }))).toBe(
      "8.8.8.8",
    );
    expect(geoAddressOf(request("::ffff:8.8.8.8"))).toBe("8.8.8.8");
  });
});

describe("the address an event is stored with", () => {
  const trusted = networks(["10.0.0.0/8", "2001:db8::/32", "192.0.2.1"]);

  it("[GE-3] is the peer's where the peer is no trusted proxy, whatever it claims", () => {
    expect(clientAddressOf(request("81.2.69.142", { "x-forwarded-for": "8.8.8.8" }), trusted)).toBe(
      "81.2.69.142",
    );
    expect(
      clientAddressOf(request("10.0.0.1", { "x-forwarded-for": "8.8.8.8" }), networks([])),
    ).toBe("10.0.0.1");
  });

  it("[GE-3] walks the forwarding list from the right past trusted hops", () => {
    const headers = { "x-forwarded-for": "1.2.3.4, 203.0.113.7, 10.0.0.2" };
    expect(clientAddressOf(request("10.0.0.1", headers), trusted)).toBe("203.0.113.7");
  });

  it("[GE-3] stops at an entry that is no address", () => {
    expect(
      clientAddressOf(request("10.0.0.1", { "x-forwarded-for": "1.2.3.4, junk" }), trusted),
    ).toBe("10.0.0.1");
  });

  it("[GE-3] ignores X-Real-IP, which every hop overwrites", () => {
    expect(clientAddressOf(request("81.2.69.142", { "x-real-ip": "8.8.8.8" }), trusted)).toBe(
      "81.2.69.142",
    );
  });
});
