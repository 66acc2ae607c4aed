import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { hashPassword, verifyPassword } from "./passwords.ts";

test("[AC-4] only the password itself passes, in whichever Unicode composition it is typed", async () => {
  const stored = await hashPassword("gr\u00fcn 1234", {
    origin: "chosen",
    randomBytes,
  });
  expect(await verifyPassword("gru\u0308n 1234", stored)).toBe(true);
  expect(await verifyPassword("grun 1234", stored)).toBe(false);
  expect(stored).not.toContain("1234");
});

test("[AC-4] the same password is stored differently each time", async () => {
  const options = { origin: "generated", randomBytes } as const;
  const first = await hashPassword("same password", options);
  expect(await hashPassword("same password", options)).not.toBe(first);
});

test("[AC-4] a damaged hash is a fault, not a wrong password", async () => {
  await expect(verifyPassword("x", "md5$abc")).rejects.toThrow("no known format");
});
