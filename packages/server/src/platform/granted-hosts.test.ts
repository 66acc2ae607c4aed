import { expect, it } from "vitest";
import { isGrantedHost } from "./granted-hosts.ts";

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
