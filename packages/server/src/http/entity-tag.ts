import { createHash } from "node:crypto";

/** The strong entity tag of a body, in quotes: equal for equal bodies, whichever process answers. */
export function entityTagOf(body: Buffer): string {
  return `"${createHash("sha256").update(body).digest("base64url").slice(0, 27)}"`;
}

/** Whether an `If-None-Match` header covers a tag; weak tags count as their strong ones. */
export function coversTag(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  if (header.trim() === "*") return true;
  return header.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag);
}
