import { expect, test } from "vitest";
import { addressUrl } from "./address-url.ts";

test.each([
  ["127.0.0.1", 8000, "http://127.0.0.1:8000"],
  ["flags.example.org", 80, "http://flags.example.org:80"],
  ["0.0.0.0", 8000, "http://localhost:8000"],
  ["::", 8000, "http://localhost:8000"],
  ["::1", 8000, "http://[::1]:8000"],
  ["::1", 0, "http://[::1]"],
])("the address %s, port %d, is told as %s", (host, port, url) => {
  expect(addressUrl(host, port)).toBe(url);
  expect(URL.canParse(url)).toBe(true);
});
