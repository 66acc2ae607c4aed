import { expect, it } from "vitest";
import { grantFault, isGrantedHost } from "./granted-hosts.ts";

it.each<[string, string, boolean]>([
  ["api.example.com", "https://api.example.com/a", true],
  ["api.example.com", "http://api.example.com/", true],
  ["api.example.com", "https://api.example.com:8443/", false],
  ["api.example.com:443", "https://api.example.com/", true],
  ["api.example.com:443", "http://api.example.com/", false],
  ["api.example.com:8443", "https://api.example.com:8443/", true],
  ["API.example.com", "https://api.example.com/", true],
  ["*.example.com", "https://a.b.example.com/", true],
  ["*.example.com", "https://example.com/", false],
  ["*.example.com", "https://badexample.com/", false],
  ["api.example.com", "ftp://api.example.com/", false],
])("[TS-15] a grant of %s, asked for %s: %s", (grant, url, isGranted) => {
  expect(isGrantedHost(new URL(url), [grant])).toBe(isGranted);
});

it.each<[string, RegExp | undefined]>([
  ["a.example.com", undefined],
  ["localhost:8000", undefined],
  ["10.0.0.1:65535", undefined],
  ["*.example.com", undefined],
  ["*.example.com:8443", undefined],
  ["*.com", /two names/],
  ["*.localhost:80", /two names/],
  ["*.0.0.1", /two names/],
  ["*", /Expected a host/],
  ["http://a.com/b", /Expected a host/],
  ["*.*.example.com", /Expected a host/],
  ["a..com", /empty names/],
  ["a.com:0", /1 to 65535/],
  ["a.com:99999", /1 to 65535/],
  ["a.com:123456", /Expected a host/],
])("[TM-50] a grant of %s can be written or not: %s", (grant, fault) => {
  if (fault === undefined) expect(grantFault(grant)).toBeUndefined();
  else expect(grantFault(grant)).toMatch(fault);
});
