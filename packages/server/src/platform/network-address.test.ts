import { describe, expect, it } from "vitest";
import { isPublicAddress, readAddress } from "./network-address.ts";

describe("addresses", () => {
  it.each([
    ["203.0.113.7", "203.0.113.7"],
    [" 81.2.69.142:443 ", "81.2.69.142"],
    ["[2001:4860::8888]:443", "2001:4860::8888"],
    ["2001:4860::8888", "2001:4860::8888"],
    ["::ffff:81.2.69.142", "81.2.69.142"],
    ["[::FFFF:5102:458e]:443", "81.2.69.142"],
    ["0:0:0:0:0:ffff:81.2.69.142", "81.2.69.142"],
    ["2001:ffff::1", "2001:ffff::1"],
    ['"[2001:4860::8888]"', "2001:4860::8888"],
    ["fe80::1%eth0", "fe80::1"],
    ["unknown", null],
    ["", null],
    ["999.1.1.1", null],
  ])("[GE-1] reads %j as %j", (entry, address) => {
    expect(readAddress(entry)).toBe(address);
  });

  it("[GE-1] tells public addresses from private and reserved ones", () => {
    expect(
      ["81.2.69.142", "2001:4860::8888", "8.8.8.8"].filter((a) => !isPublicAddress(a)),
    ).toEqual([]);
    const reserved = [
      "127.0.0.1",
      "10.1.2.3",
      "192.168.0.1",
      "172.31.0.1",
      "100.64.0.1",
      "::1",
      "::ffff:10.0.0.1",
      "fe80::1",
      "fd00::1",
      "240.0.0.1",
      "nonsense",
    ];
    expect(reserved.filter(isPublicAddress)).toEqual([]);
  });
});
