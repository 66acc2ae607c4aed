import * as nodeCrypto from "node:crypto";
import type { JsonObject } from "@hedgerow/core/json";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEFAULT_LIMITS } from "../../../transformations/sandbox.ts";
import { QuickJsSandbox } from "../quickjs-sandbox.ts";
import { propertiesAfter, recordHost, sampleEvents, startSource } from "../sandbox.setup.ts";

let sandbox: QuickJsSandbox;
beforeAll(() => {
  sandbox = new QuickJsSandbox({ threads: 1 });
});
afterAll(() => sandbox.close());

const { privateKey, publicKey } = nodeCrypto.generateKeyPairSync("rsa", {
  modulusLength: 1024,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});

/** What a function body answers in the sandbox, and what it answers in Node.js. */
async function bothAnswers(body: string): Promise<readonly [inside: unknown, outside: unknown]> {
  const keys = `const privateKey = ${JSON.stringify(privateKey)}, publicKey = ${JSON.stringify(publicKey)};`;
  const seen = (await propertiesAfter(
    sandbox,
    `const c = require("crypto"); ${keys}
    const refused = (work) => { try { return work() } catch (error) { return error.name } };
    async function processEvent(event) {
      event.properties = { seen: await (async () => { ${body} })() }; return event }`,
    { limits: { ...DEFAULT_LIMITS, eventCpuMs: 20_000 } },
  )) as JsonObject;
  const run = new Function(
    "c",
    `${keys} const refused = (work) => { try { return work() } catch (error) { return error.name } };
    return (async () => { ${body} })()`,
  ) as (crypto: unknown) => Promise<unknown>;
  return [seen?.["seen"] ?? seen, JSON.parse(JSON.stringify(await run(nodeCrypto)))];
}

describe("crypto of Node.js", () => {
  it.each([
    [
      "hashes",
      `return ["md5", "sha1", "SHA256", "sha384", "sha512", "sha512-256", "sha3-256", "ripemd160", "blake2b512", "RSA-SHA256"].map((name) => c.createHash(name).update("ü").update(Buffer.from([0, 255])).digest("hex"))`,
    ],
    [
      "every hash that there is",
      `return c.getHashes().map((name) => refused(() => c.createHash(name).update("a").digest("base64")))`,
    ],
    [
      "hashes of a length",
      `return c.createHash("shake256", { outputLength: 40 }).update("a").digest("hex")`,
    ],
    [
      "hashes in parts",
      `const hash = c.createHash("sha1").update("6162", "hex"); const copy = hash.copy(); return [hash.digest("base64url"), copy.update("c").digest("latin1"), c.createHash("md5").digest().length]`,
    ],
    [
      "HMACs",
      `return [c.createHmac("sha256", "kéy").update("data").digest("hex"), c.createHmac("sha512", Buffer.alloc(200, 7)).update(new Uint8Array([1, 2])).digest("base64"), c.createHmac("md5", "").digest("hex")]`,
    ],
    [
      "PBKDF2",
      `return [c.pbkdf2Sync("secret", "salt", 100_000, 64, "sha512").toString("hex"), c.pbkdf2Sync(Buffer.from("pässword"), Buffer.from([1, 2]), 1, 20, "sha1").toString("base64"), c.pbkdf2Sync("a", "b", 10, 0, "sha256").length]`,
    ],
    [
      "PBKDF2 by callback",
      `return new Promise((done) => c.pbkdf2("secret", "salt", 1000, 32, "sha256", (error, key) => done([error, key.toString("hex")])))`,
    ],
    [
      "scrypt",
      `return [c.scryptSync("secret", "salt", 32).toString("hex"), c.scryptSync("s", Buffer.from("t"), 64, { N: 1024, r: 4, p: 2 }).toString("hex"), c.scryptSync("s", "t", 16, { cost: 2 }).toString("hex")]`,
    ],
    [
      "scrypt by callback",
      `return Promise.all([new Promise((done) => c.scrypt("a", "b", 16, (error, key) => done(key.toString("hex")))), new Promise((done) => c.scrypt("a", "b", 16, { N: 64 }, (error, key) => done(key.toString("hex"))))])`,
    ],
    [
      "HKDF",
      `return [Buffer.from(c.hkdfSync("sha256", "key", "salt", "info", 42)).toString("hex"), c.hkdfSync("sha1", Buffer.from("k"), "", "", 8) instanceof ArrayBuffer]`,
    ],
    [
      "comparisons",
      `return [c.timingSafeEqual(Buffer.from("ab"), new Uint8Array([97, 98])), c.timingSafeEqual(Buffer.from("ab"), Buffer.from("ac")), refused(() => c.timingSafeEqual(Buffer.from("a"), Buffer.from("ab"))), refused(() => c.timingSafeEqual("a", "a"))]`,
    ],
    [
      "ciphers",
      `const key = Buffer.alloc(32, 1), iv = Buffer.alloc(16, 2);
      const cipher = c.createCipheriv("aes-256-cbc", key, iv);
      const text = cipher.update("0123456789abcdefü", "utf8", "hex") + cipher.update("more", "utf8", "hex") + cipher.final("hex");
      const decipher = c.createDecipheriv("aes-256-cbc", key, iv);
      const back = Buffer.concat([decipher.update(text, "hex"), decipher.final()]).toString();
      const stream = c.createCipheriv("aes-128-ctr", key.subarray(16), iv);
      return [text, back, stream.update("abc", "utf8", "base64"), stream.update(Buffer.from("def")).toString("hex"), refused(() => c.createCipheriv("aes-256-cbc", "short", iv)), refused(() => { const d = c.createDecipheriv("aes-256-cbc", key, iv); d.update("00", "hex"); d.final() })]`,
    ],
    [
      "ciphers with tags",
      `const key = Buffer.alloc(32, 1), iv = Buffer.alloc(12, 2);
      const cipher = c.createCipheriv("aes-256-gcm", key, iv).setAAD(Buffer.from("aad"));
      const text = cipher.update("hidden", "utf8", "base64") + cipher.final("base64"), tag = cipher.getAuthTag();
      const open = (tag) => { const d = c.createDecipheriv("aes-256-gcm", key, iv); d.setAAD(Buffer.from("aad")); d.setAuthTag(tag); return d.update(text, "base64", "utf8") + d.final("utf8") };
      return [text, tag.toString("hex"), open(tag), refused(() => open(Buffer.alloc(16)))]`,
    ],
    [
      "signatures",
      `const signature = c.createSign("RSA-SHA256").update("a").update("b").sign(privateKey, "base64");
      return [signature, c.sign("sha256", Buffer.from("ab"), privateKey).toString("base64") === signature, c.createVerify("RSA-SHA256").update("ab").verify(publicKey, signature, "base64"), c.createVerify("RSA-SHA256").update("ac").verify(publicKey, signature, "base64"), c.verify("sha256", Buffer.from("ab"), { key: publicKey }, Buffer.from(signature, "base64")), refused(() => c.createSign("RSA-SHA256").sign("no key"))]`,
    ],
    [
      "random bytes, in number",
      `return [c.randomBytes(8).length, c.randomBytes(0).length, c.randomFillSync(Buffer.alloc(4), 2).subarray(0, 2).toString("hex"), refused(() => c.randomBytes(-1)), refused(() => c.randomBytes("8")), await new Promise((done) => c.randomBytes(3, (error, bytes) => done([error, bytes.length])))]`,
    ],
    [
      "random numbers and ids",
      `return [c.randomInt(1), c.randomInt(5, 6), refused(() => c.randomInt(2, 1)), /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(c.randomUUID()), await new Promise((done) => c.randomInt(1, (error, n) => done(n)))]`,
    ],
    [
      "what is refused",
      `return [refused(() => c.createHash("nope")), refused(() => c.createHash("md5").update(5)), refused(() => { const h = c.createHash("md5"); h.digest(); h.update("a") }), refused(() => c.pbkdf2Sync("a", "b", 0, 8, "sha1")), refused(() => c.pbkdf2Sync("a", "b", 1.5, 8, "sha1")), refused(() => c.pbkdf2Sync("a", "b", 1, 8)), refused(() => c.scryptSync("a", "b", -1)), refused(() => c.scryptSync("a", "b", 8, { N: 3 }))]`,
    ],
    [
      "Web Crypto's digests",
      `const hex = (bytes) => Buffer.from(bytes).toString("hex"), { subtle } = c.webcrypto, data = new TextEncoder().encode("abc");
      return [...await Promise.all(["SHA-1", "sha-256", { name: "SHA-384" }, "SHA-512"].map((name) => subtle.digest(name, data).then(hex))), await subtle.digest("MD5", data).catch((error) => error.name), hex(await subtle.digest("SHA-1", data.buffer)), c.webcrypto.getRandomValues(new Uint32Array(2)).length]`,
    ],
    [
      "Web Crypto's keys",
      `const hex = (bytes) => Buffer.from(bytes).toString("hex"), { subtle } = c.webcrypto, bytes = (text) => new TextEncoder().encode(text);
      const hmac = await subtle.importKey("raw", bytes("k"), { name: "HMAC", hash: "SHA-512" }, true, ["sign"]);
      const password = await subtle.importKey("raw", bytes("p"), "PBKDF2", false, ["deriveBits"]);
      const secret = await subtle.importKey("raw", bytes("s"), "HKDF", false, ["deriveBits"]);
      return [hex(await subtle.sign("HMAC", hmac, bytes("d"))), hex(await subtle.exportKey("raw", hmac)), await subtle.verify("HMAC", hmac, bytes("s"), bytes("d")).catch((error) => error.name), hex(await subtle.deriveBits({ name: "PBKDF2", hash: "SHA-256", salt: bytes("salt"), iterations: 1000 }, password, 256)), hex(await subtle.deriveBits({ name: "HKDF", hash: "SHA-1", salt: bytes("salt"), info: bytes("i") }, secret, 128)), await subtle.exportKey("raw", secret).then(() => "exported", () => "refused")]`,
    ],
  ])("[TS-14] answers as Node.js does: %s", async (_what, body) => {
    const [inside, outside] = await bothAnswers(body);
    expect(inside).toEqual(outside);
  });

  it("[TS-18] bounds what it derives, and tells so", async () => {
    const seen = await propertiesAfter(
      sandbox,
      `const c = require("crypto");
      const refused = (work) => { try { work(); return "done" } catch (error) { return error.name + ": " + error.message } };
      function processEvent(event) {
        event.properties = {
          rounds: refused(() => c.pbkdf2Sync("a", "b", 1e9, 32, "sha256")),
          blocks: refused(() => c.pbkdf2Sync("a", "b", 1e5, 4_000, "sha1")),
          length: refused(() => c.pbkdf2Sync("a", "b", 1, 1e8, "sha1")),
          scrypt: refused(() => c.scryptSync("a", "b", 32, { N: 2 ** 20, maxmem: 2 ** 31 })),
          hash: refused(() => c.createHash("shake128", { outputLength: 1e9 })),
          bytes: refused(() => c.randomBytes(1e9)),
        };
        return event;
      }`,
    );
    expect(seen).toEqual({
      rounds: "RangeError: pbkdf2 takes no more than 250000 iterations here",
      blocks: "RangeError: pbkdf2 takes no more than 250000 iterations here",
      length: "RangeError: A derived key has no more than 4096 bytes here",
      scrypt: "RangeError: scrypt takes no more than N * r * p = 262144 here",
      hash: "RangeError: A hash has no more than 65536 bytes here",
      bytes: "RangeError: The size must be between 0 and 1000000",
    });
  });

  it("[TS-31] reads no key that tells itself how much work that is, and no long one", async () => {
    const encrypted = nodeCrypto
      .createPrivateKey(privateKey)
      .export({ type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "x" });
    const n = Buffer.alloc(577, 255).toString("base64url");
    const long = nodeCrypto
      .createPublicKey({ key: { kty: "RSA", n, e: "AQAB" }, format: "jwk" })
      .export({ type: "spki", format: "pem" });
    // Computes modulo a prime that is eight times as long as it should be.
    const p = Buffer.alloc(1_000, 255).toString("base64url");
    const usual = nodeCrypto.createPrivateKey(privateKey).export({ format: "jwk" });
    const slow = nodeCrypto
      .createPrivateKey({ key: { ...usual, p, dp: p }, format: "jwk" })
      .export({ type: "pkcs8", format: "pem" });
    const seen = await propertiesAfter(
      sandbox,
      `const c = require("crypto"), encrypted = ${JSON.stringify(encrypted)}, long = ${JSON.stringify(long)};
      const slow = ${JSON.stringify(slow)};
      const refused = (work) => { try { work(); return "done" } catch (error) { return error.name + ": " + error.message } };
      function processEvent(event) {
        event.properties = {
          sign: refused(() => c.createSign("sha256").update("a").sign({ key: encrypted, passphrase: "x" })),
          verify: refused(() => c.createVerify("sha256").update("a").verify({ key: encrypted, passphrase: "x" }, "00", "hex")),
          length: refused(() => c.createSign("sha256").update("a").sign("-".repeat(5_000))),
          modulus: refused(() => c.createVerify("sha256").update("a").verify(long, "00", "hex")),
          primes: refused(() => c.createSign("sha256").update("a").sign(slow)),
        };
        return event;
      }`,
    );
    expect(seen).toEqual({
      sign: "Error: Encrypted keys cannot be used here",
      verify: "Error: Encrypted keys cannot be used here",
      length: "RangeError: A key has no more than 4096 characters here",
      modulus: "RangeError: A key has no more than 4096 bits here",
      primes: "RangeError: A key has no numbers here that are too long for its modulus",
    });
  });

  it.each([
    ["derivations", "c.pbkdf2Sync('a', 'b', 20_000, 64, 'sha512')", 13],
    ["scrypt", "c.scryptSync('a', 'b', 32, { N: 4_096 })", 8],
    ["signatures", "c.createSign('sha256').update('a').sign(privateKey)", 20],
  ])("[TS-31] gives events no more %s than fit into their time", async (_what, work, times) => {
    const seen = await propertiesAfter(
      sandbox,
      `const c = require("crypto"), privateKey = ${JSON.stringify(privateKey)};
      function processEvent(event) {
        let times = 0;
        try { for (; times < 1_000; times++) ${work} } catch (error) { event.properties.error = error.message }
        event.properties.times = times;
        return event;
      }`,
    );
    const { times: done, error } = seen as { times: number; error: string };
    // A slow machine ends it by its time, before that.
    expect(done).toBeLessThanOrEqual(times);
    expect(error).toMatch(/do not fit into 100 ms|computed for longer than 100 ms/);
  });

  it("[TS-31] ends events that ask for nothing but such work, and their thread goes on", async () => {
    const record = recordHost();
    const instance = await startSource(
      sandbox,
      `const c = require("crypto");
      export function processEvent(event) {
        for (;;) try { c.pbkdf2Sync("a", "b", 250_000, 64, "sha512") } catch {}
      }`,
      { host: record.host },
    );
    expect(await instance.transform(sampleEvents(1))).toEqual([
      expect.objectContaining({
        kind: "failed",
        isLimit: true,
        reason: "it computed for longer than 100 ms",
      }),
    ]);
    expect(record.lines.map(({ message }) => message)).not.toContain(
      "Stopped: it blocked its thread",
    );
    await instance.stop();
  });
});
