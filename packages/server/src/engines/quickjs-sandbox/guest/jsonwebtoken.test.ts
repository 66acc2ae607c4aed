import { createHmac, createVerify, generateKeyPairSync } from "node:crypto";
import type { JsonObject } from "@hedgerow/core/json";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { QuickJsSandbox } from "../quickjs-sandbox.ts";
import { propertiesAfter } from "../sandbox.setup.ts";

let sandbox: QuickJsSandbox;
beforeAll(() => {
  sandbox = new QuickJsSandbox({ threads: 1 });
});
afterAll(() => sandbox.close());

const pem = { publicKeyEncoding: { type: "spki", format: "pem" } } as const;
const pkcs8 = { privateKeyEncoding: { type: "pkcs8", format: "pem" } } as const;
const rsa = generateKeyPairSync("rsa", { modulusLength: 2048, ...pem, ...pkcs8 });
const ec = generateKeyPairSync("ec", { namedCurve: "P-256", ...pem, ...pkcs8 });
const keys = JSON.stringify({ rsa, ec });

/** What an expression is where `jwt` is the package; the name and the message of what it throws. */
async function within(expression: string): Promise<unknown> {
  const after = await propertiesAfter(
    sandbox,
    `import jwt, { sign } from "jsonwebtoken";
    const { rsa, ec } = ${keys};
    const named = rsa.publicKey.replaceAll("PUBLIC KEY", "X509 CERTIFICATE");
    export async function processEvent(event) {
      let seen;
      try { seen = await (${expression}) } catch (error) { seen = [error.name, error.message] }
      event.properties = { seen };
      return event;
    }`,
  );
  return (after as JsonObject)["seen"];
}

function contentOf(token: string): unknown[] {
  const [header = "", payload = ""] = token.split(".");
  return [header, payload].map((part) => JSON.parse(Buffer.from(part, "base64url").toString()));
}

describe("the package jsonwebtoken", () => {
  it("[TS-50] signs with secrets", async () => {
    const token = (await within(
      `sign({ a: "ü", iat: 5 }, "secret", { algorithm: "HS512", expiresIn: "1.5h", notBefore: 10, audience: ["x"], issuer: "i", subject: "s", jwtid: "j", keyid: "k", header: { x: 1 } })`,
    )) as string;
    const claims = {
      a: "ü",
      iat: 5,
      nbf: 15,
      exp: 5_405,
      aud: ["x"],
      iss: "i",
      sub: "s",
      jti: "j",
    };
    expect(contentOf(token)).toEqual([{ alg: "HS512", typ: "JWT", kid: "k", x: 1 }, claims]);
    const [header, payload, signature] = token.split(".");
    const hmac = createHmac("sha512", "secret").update(`${header}.${payload}`);
    expect(signature).toBe(hmac.digest("base64url"));
  });

  it.each([
    ["RS256", rsa, "sha256", {}],
    ["PS384", rsa, "sha384", { padding: 6, saltLength: -1 }],
    ["ES256", ec, "sha256", { dsaEncoding: "ieee-p1363" }],
  ] as const)(
    "[TS-50] signs with private keys, %s",
    async (algorithm, { privateKey, publicKey }, hash, use) => {
      const token = (await within(
        `sign({ iat: 5 }, ${JSON.stringify(privateKey)}, { algorithm: "${algorithm}" })`,
      )) as string;
      expect(contentOf(token)).toEqual([{ alg: algorithm, typ: "JWT" }, { iat: 5 }]);
      const [header, payload, signature = ""] = token.split(".");
      const verifier = createVerify(hash).update(`${header}.${payload}`);
      const key = { key: publicKey, ...use };
      expect(verifier.verify(key, signature, "base64url")).toBe(true);
      const read = `jwt.verify(${JSON.stringify(token)}, ${JSON.stringify(publicKey)})`;
      expect(await within(read)).toEqual({ iat: 5 });
    },
  );

  it.each([
    [`new Date().getTime() / 1000 - jwt.decode(sign({}, "s")).iat < 60`, true],
    [
      `jwt.decode(sign({ a: [1] }, "s", { noTimestamp: true }), { complete: true }).payload`,
      { a: [1] },
    ],
    [`jwt.decode(sign("text", "s"))`, "text"],
    [`jwt.decode("no token")`, null],
    [
      `jwt.verify(sign({ iat: 1 }, "s"), "s", { complete: true }).header`,
      { alg: "HS256", typ: "JWT" },
    ],
    [
      `new Promise((tell) => sign({ iat: 1 }, "s", (...told) => tell([told[0], jwt.decode(told[1])])))`,
      [null, { iat: 1 }],
    ],
    [
      `new Promise((tell) => jwt.verify("a.b", "s", {}, (error) => tell(error.message)))`,
      "jwt malformed",
    ],
    [
      `["sign" in jwt, new jwt.TokenExpiredError("a", new Date(0)) instanceof jwt.JsonWebTokenError]`,
      [true, true],
    ],
    [
      `jwt.verify(sign({ aud: ["a", "b"], iss: "i", iat: 1 }, "s"), "s", { audience: /^b/, issuer: ["h", "i"] }).iss`,
      "i",
    ],
    [
      `jwt.verify(sign({ exp: 5, iat: 1 }, "s"), "s", { clockTimestamp: 4, maxAge: "1m" })`,
      { exp: 5, iat: 1 },
    ],
  ])("[TS-50] %s", async (expression, expected) => {
    expect(await within(expression)).toEqual(expected);
  });

  it.each([
    [`sign({ iat: 1 }, "")`, "Error", "secretOrPrivateKey must have a value"],
    [`sign(undefined, "s")`, "Error", "payload is required"],
    [`sign({ exp: "x" }, "s")`, "Error", '"exp" should be a number of seconds'],
    [`sign({ exp: 1 }, "s", { expiresIn: 1 })`, "Error", /^Bad "options.expiresIn"/],
    [`sign({ aud: 1 }, "s", { audience: "a" })`, "Error", /^Bad "options.audience"/],
    [`sign({}, "s", { expiresIn: "soon" })`, "Error", /^"expiresIn" should be a number/],
    [`sign({}, "s", { algorithm: "XX" })`, "Error", /"algorithm"/],
    [`jwt.verify(sign({}, "s"), "other")`, "JsonWebTokenError", "invalid signature"],
    [
      `jwt.verify(sign({}, "", { algorithm: "none" }), "s")`,
      "JsonWebTokenError",
      "jwt signature is required",
    ],
    [`jwt.verify(sign({}, "", { algorithm: "none" }), "")`, "JsonWebTokenError", /specify "none"/],
    // A public key is no secret: whoever has it could sign.
    [
      `jwt.verify(sign({}, rsa.publicKey), rsa.publicKey)`,
      "JsonWebTokenError",
      "invalid algorithm",
    ],
    [
      `jwt.verify(sign({}, rsa.publicKey), rsa.publicKey, { algorithms: ["RS256", "HS256"] })`,
      "JsonWebTokenError",
      "secretOrPublicKey must be a symmetric key when using HS256",
    ],
    [
      `jwt.verify(sign({}, rsa.publicKey), new TextEncoder().encode(rsa.publicKey))`,
      "JsonWebTokenError",
      "invalid algorithm",
    ],
    [
      `jwt.verify(sign({}, rsa.publicKey), new DataView(new TextEncoder().encode(rsa.publicKey).buffer), { algorithms: ["HS256"] })`,
      "JsonWebTokenError",
      /symmetric/,
    ],
    [`jwt.verify(sign({}, named), named)`, "JsonWebTokenError", "invalid algorithm"],
    [
      `sign({}, rsa.privateKey)`,
      "Error",
      "secretOrPrivateKey must be a symmetric key when using HS256",
    ],
    [
      `sign({}, "s", { algorithm: "ES256" })`,
      "Error",
      "secretOrPrivateKey must be an asymmetric key when using ES256",
    ],
    [
      `jwt.verify(sign({}, rsa.privateKey, { algorithm: "RS256" }), "s", { algorithms: ["RS256"] })`,
      "JsonWebTokenError",
      "secretOrPublicKey must be an asymmetric key when using RS256",
    ],
    [
      `jwt.verify(sign({}, "s"), "s", { algorithms: ["RS256"] })`,
      "JsonWebTokenError",
      "invalid algorithm",
    ],
    [`jwt.verify(sign({ exp: 5 }, "s"), "s")`, "TokenExpiredError", "jwt expired"],
    [
      `jwt.verify(sign({ iat: 5 }, "s"), "s", { maxAge: 60 })`,
      "TokenExpiredError",
      "maxAge exceeded",
    ],
    [`jwt.verify(sign({ nbf: 99999999999 }, "s"), "s")`, "NotBeforeError", "jwt not active"],
    [
      `jwt.verify(sign({ sub: "a" }, "s"), "s", { subject: "b" })`,
      "JsonWebTokenError",
      "jwt subject invalid. expected: b",
    ],
    [
      `jwt.verify(sign({ aud: "a" }, "s"), "s", { audience: ["b", "c"] })`,
      "JsonWebTokenError",
      "jwt audience invalid. expected: b or c",
    ],
  ])("[TS-50] refuses %s", async (expression, name, message) => {
    const told = typeof message === "string" ? message : expect.stringMatching(message);
    expect(await within(expression)).toEqual([name, told]);
  });

  it("[TS-50] is the source's own where it brings one along", async () => {
    const files = {
      "index.js": `const { ran } = require("jsonwebtoken"); exports.processEvent = (event) => ({ ...event, properties: { ran } })`,
      "node_modules/jsonwebtoken/index.js": "exports.ran = true",
    };
    expect(await propertiesAfter(sandbox, files)).toEqual({ ran: true });
  });
});
