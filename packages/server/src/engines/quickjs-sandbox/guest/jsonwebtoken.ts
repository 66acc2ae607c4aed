import type { GuestCore } from "./part.ts";

type Claims = Record<string, unknown>;
type Options = Record<string, unknown>;
type Callback = (error: unknown, answer?: unknown) => void;

interface Hashing {
  update(data: string): this;
  digest(encoding: string): string;
}
interface Signing {
  update(data: string): this;
  sign(key: object, encoding: string): string;
  verify(key: object, signature: string, encoding: string): boolean;
}
interface NodeCrypto {
  createHmac(algorithm: string, key: unknown): Hashing;
  createSign(algorithm: string): Signing;
  createVerify(algorithm: string): Signing;
  timingSafeEqual(left: Uint8Array, right: Uint8Array): boolean;
  constants: Record<string, number>;
}

/** Units of time by the first letters of their names, in milliseconds. */
const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
  y: 31_557_600_000,
};
const SPAN =
  /^(-?(?:\d+)?\.?\d+) *(?:(milliseconds?|msecs?|ms)|(s)(?:ec(?:ond)?s?)?|(m)(?:in(?:ute)?s?)?|(h)(?:(?:ou)?rs?)?|(d)(?:ays?)?|(w)(?:eeks?)?|(y)(?:(?:ea)?rs?)?)?$/i;
const MAX_SPAN_LENGTH = 100;
/** How keys of two halves begin as PEM: all else is a secret. */
const PEM = /BEGIN [A-Z\d ]*(?:CERTIFICATE|PUBLIC KEY|(PRIVATE KEY))/;
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]*$/;
const ALGORITHM = /^(HS|RS|PS|ES)(256|384|512)$/;
/** Options that become claims, and by which name. */
const CLAIMS: readonly (readonly [option: string, claim: string])[] = [
  ["audience", "aud"],
  ["issuer", "iss"],
  ["subject", "sub"],
  ["jwtid", "jti"],
];
const SPAN_IS =
  'should be a number of seconds or string representing a timespan eg: "1d", "20h", 60';

/** The package `jsonwebtoken`, which PostHog has for its plugins: tokens signed, verified and read. */
export function makePart(core: GuestCore): Record<string, unknown> {
  const crypto = core.part("crypto")["crypto"] as NodeCrypto;
  const { Buffer } = core.part("buffer") as { Buffer: typeof globalThis.Buffer };
  const encode = (text: string) => Buffer.from(text).toString("base64url");
  const read = (text: string) => Buffer.from(text, "base64").toString();

  class JsonWebTokenError extends Error {
    constructor(message: string) {
      super(message);
      core.put(this, "name", "JsonWebTokenError", true);
    }
  }
  class TokenExpiredError extends JsonWebTokenError {
    readonly expiredAt: Date;
    constructor(message: string, expiredAt: Date) {
      super(message);
      core.put(this, "name", "TokenExpiredError", true);
      this.expiredAt = expiredAt;
    }
  }
  class NotBeforeError extends JsonWebTokenError {
    readonly date: Date;
    constructor(message: string, date: Date) {
      super(message);
      core.put(this, "name", "NotBeforeError", true);
      this.date = date;
    }
  }

  /** What a signature is made with (RFC 7518, 3.1). */
  function keyFor(kind: string, key: unknown): object {
    const { constants } = crypto;
    const given =
      typeof key === "object" && key !== null && !(key instanceof Uint8Array) ? key : { key };
    if (kind === "PS") {
      const { RSA_PKCS1_PSS_PADDING: padding, RSA_PSS_SALTLEN_DIGEST: saltLength } = constants;
      return { ...given, padding, saltLength };
    }
    return kind === "ES" ? { ...given, dsaEncoding: "ieee-p1363" } : given;
  }

  /** Node's names of what an algorithm is made of: `RS256` signs SHA-256 by RSA. */
  function partsOf(algorithm: unknown): [kind: string, hash: string] {
    const [, kind, bits] = ALGORITHM.exec(String(algorithm)) ?? [];
    if (kind === undefined || bits === undefined) {
      throw new Error('"algorithm" must be a valid string enum value');
    }
    return [kind, `sha${bits}`];
  }

  /** Which half of a pair a key is, as text or as its bytes; none where it is a secret. */
  function halfOf(key: unknown): "public" | "private" | undefined {
    const given = (key as { key?: unknown } | null | undefined)?.key ?? key;
    const isBytes = ArrayBuffer.isView(given) || given instanceof ArrayBuffer;
    const bytes = given as Uint8Array<ArrayBuffer>;
    const text = isBytes
      ? Buffer.from(bytes.buffer ?? bytes, bytes.byteOffset, bytes.byteLength)
      : given;
    const [found, isPrivate] = PEM.exec(String(text)) ?? [];
    if (found === undefined) return undefined;
    return isPrivate === undefined ? "public" : "private";
  }

  function signatureOf(algorithm: unknown, signed: string, key: unknown): string {
    if (algorithm === "none") return "";
    const [kind, hash] = partsOf(algorithm);
    if (kind === "HS") return crypto.createHmac(hash, key).update(signed).digest("base64url");
    return crypto.createSign(hash).update(signed).sign(keyFor(kind, key), "base64url");
  }

  function isSigned(algorithm: unknown, signed: string, key: unknown, signature: string): boolean {
    if (algorithm === "none") return signature === "";
    const [kind, hash] = partsOf(algorithm);
    if (kind !== "HS") {
      return crypto
        .createVerify(hash)
        .update(signed)
        .verify(keyFor(kind, key), signature, "base64");
    }
    const [one, other] = [Buffer.from(signature), Buffer.from(signatureOf(algorithm, signed, key))];
    return one.length === other.length && crypto.timingSafeEqual(one, other);
  }

  /** Seconds of the epoch after a span of time; nothing where it is none. */
  function after(span: unknown, fromSeconds: number): number | undefined {
    if (typeof span === "number") return fromSeconds + span;
    if (typeof span !== "string" || span.length > MAX_SPAN_LENGTH) return undefined;
    const [, count, milliseconds, ...units] = SPAN.exec(span) ?? [];
    if (count === undefined) return undefined;
    const unit = units.find((one) => one !== undefined)?.toLowerCase();
    const ms = milliseconds === undefined && unit !== undefined ? UNITS[unit] : UNITS["ms"];
    return Math.floor(fromSeconds + (Number(count) * (ms as number)) / 1_000);
  }

  const nowSeconds = () => Math.floor(Date.now() / 1_000);

  function makeToken(given: unknown, key: unknown, options: Options): string {
    const algorithm = options["algorithm"] ?? "HS256";
    const isObject = typeof given === "object" && given !== null && !(given instanceof Uint8Array);
    if (!key && algorithm !== "none") throw new Error("secretOrPrivateKey must have a value");
    if (given === undefined) throw new Error("payload is required");
    const { keyid, header: more } = options as { keyid?: string; header?: object };
    const header = { alg: algorithm, typ: isObject ? "JWT" : undefined, kid: keyid, ...more };
    const isPrivate = halfOf(key) === "private";
    if (/^HS/.test(String(header.alg)) && isPrivate) {
      throw new Error(`secretOrPrivateKey must be a symmetric key when using ${header.alg}`);
    }
    if (/^(?:RS|PS|ES)/.test(String(header.alg)) && !isPrivate) {
      throw new Error(`secretOrPrivateKey must be an asymmetric key when using ${header.alg}`);
    }
    const payload = isObject ? withClaims(given as Claims, options) : String(given);
    const text = typeof payload === "string" ? payload : JSON.stringify(payload);
    const signed = `${encode(JSON.stringify(header))}.${encode(text)}`;
    return `${signed}.${signatureOf(header.alg, signed, key)}`;
  }

  function withClaims(given: Claims, options: Options): Claims {
    if (Array.isArray(given)) throw new Error('Expected "payload" to be a plain object.');
    const payload = options["mutatePayload"] === true ? given : { ...given };
    for (const claim of ["iat", "exp", "nbf"]) {
      if (payload[claim] !== undefined && typeof payload[claim] !== "number") {
        throw new Error(`"${claim}" should be a number of seconds`);
      }
    }
    const times = [
      ["notBefore", "nbf"],
      ["expiresIn", "exp"],
    ] as const;
    for (const [option, claim] of times) {
      if (payload[claim] === undefined || options[option] === undefined) continue;
      throw new Error(
        `Bad "options.${option}" option the payload already has an "${claim}" property.`,
      );
    }
    const issued = (payload["iat"] as number | undefined) || nowSeconds();
    if (options["noTimestamp"] === true) delete payload["iat"];
    else payload["iat"] = issued;
    for (const [option, claim] of times) {
      if (options[option] === undefined) continue;
      const instant = after(options[option], issued);
      if (instant === undefined) throw new Error(`"${option}" ${SPAN_IS}`);
      payload[claim] = instant;
    }
    for (const [option, claim] of CLAIMS) {
      if (options[option] === undefined) continue;
      if (payload[claim] !== undefined) {
        throw new Error(
          `Bad "options.${option}" option. The payload already has an "${claim}" property.`,
        );
      }
      payload[claim] = options[option];
    }
    return payload;
  }

  function decode(token: unknown, options: Options = {}): unknown {
    if (typeof token !== "string" || !TOKEN.test(token)) return null;
    const [head = "", body = "", signature = ""] = token.split(".");
    let header: Claims;
    let payload: unknown = read(body);
    try {
      header = JSON.parse(read(head)) as Claims;
    } catch {
      return null;
    }
    try {
      const value: unknown = JSON.parse(payload as string);
      if (typeof value === "object" && value !== null) payload = value;
    } catch (error) {
      if (header["typ"] === "JWT") throw error;
    }
    return options["complete"] === true ? { header, payload, signature } : payload;
  }

  function readToken(token: unknown, key: unknown, options: Options): unknown {
    if (!token) throw new JsonWebTokenError("jwt must be provided");
    if (typeof token !== "string") throw new JsonWebTokenError("jwt must be a string");
    if (token.split(".").length !== 3) throw new JsonWebTokenError("jwt malformed");
    const decoded = decode(token, { complete: true }) as { header: Claims; payload: Claims } | null;
    if (decoded === null) throw new JsonWebTokenError("invalid token");
    const { header, payload } = decoded;
    const signature = token.slice(token.lastIndexOf(".") + 1);
    if (signature === "" && key) throw new JsonWebTokenError("jwt signature is required");
    if (signature !== "" && !key) {
      throw new JsonWebTokenError("secret or public key must be provided");
    }
    const allowed = options["algorithms"] as readonly unknown[] | undefined;
    if (signature === "" && allowed === undefined) {
      throw new JsonWebTokenError(
        'please specify "none" in "algorithms" to verify unsigned tokens',
      );
    }
    const algorithm = header["alg"];
    if (!(allowed?.includes(algorithm) ?? isUsual(algorithm, key))) {
      throw new JsonWebTokenError("invalid algorithm");
    }
    const isSecret = halfOf(key) === undefined;
    if (/^HS/.test(String(algorithm)) && !isSecret) {
      throw new JsonWebTokenError(
        `secretOrPublicKey must be a symmetric key when using ${algorithm}`,
      );
    }
    if (/^(?:RS|PS|ES)/.test(String(algorithm)) && isSecret) {
      throw new JsonWebTokenError(
        `secretOrPublicKey must be an asymmetric key when using ${algorithm}`,
      );
    }
    const signed = token.slice(0, token.lastIndexOf("."));
    if (!isSigned(algorithm, signed, key, signature)) {
      throw new JsonWebTokenError("invalid signature");
    }
    checkTimes(payload, options);
    checkClaims(payload, options);
    return options["complete"] === true ? decoded : payload;
  }

  /** What verifies by a key where nobody says what may: neither passes for the other. */
  function isUsual(algorithm: unknown, key: unknown): boolean {
    return (halfOf(key) === undefined ? /^HS/ : /^(?:RS|PS|ES)/).test(String(algorithm));
  }

  function checkTimes(payload: Claims, options: Options): void {
    const now = (options["clockTimestamp"] as number | undefined) || nowSeconds();
    const tolerance = (options["clockTolerance"] as number | undefined) ?? 0;
    const { nbf, exp, iat } = payload;
    if (nbf !== undefined && options["ignoreNotBefore"] !== true) {
      if (typeof nbf !== "number") throw new JsonWebTokenError("invalid nbf value");
      if (nbf > now + tolerance) throw new NotBeforeError("jwt not active", new Date(nbf * 1_000));
    }
    if (exp !== undefined && options["ignoreExpiration"] !== true) {
      if (typeof exp !== "number") throw new JsonWebTokenError("invalid exp value");
      if (now >= exp + tolerance) throw new TokenExpiredError("jwt expired", new Date(exp * 1_000));
    }
    if (options["maxAge"] === undefined) return;
    if (typeof iat !== "number") {
      throw new JsonWebTokenError("iat required when maxAge is specified");
    }
    const last = after(options["maxAge"], iat);
    if (last === undefined) throw new JsonWebTokenError(`"maxAge" ${SPAN_IS}`);
    if (now >= last + tolerance) {
      throw new TokenExpiredError("maxAge exceeded", new Date(last * 1_000));
    }
  }

  function checkClaims(payload: Claims, options: Options): void {
    const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : [value]);
    const { audience } = options;
    if (audience) {
      const wanted = listOf(audience);
      const fits = listOf(payload["aud"]).some((one) =>
        wanted.some((want) => (want instanceof RegExp ? want.test(String(one)) : want === one)),
      );
      if (!fits) {
        throw new JsonWebTokenError(`jwt audience invalid. expected: ${wanted.join(" or ")}`);
      }
    }
    const others = [
      ["issuer", "iss"],
      ["subject", "sub"],
      ["jwtid", "jti"],
      ["nonce", "nonce"],
    ];
    for (const [option = "", claim = ""] of others) {
      const wanted = options[option];
      if (!wanted) continue;
      const fits = option === "issuer" ? listOf(wanted) : [wanted];
      if (!fits.includes(payload[claim])) {
        throw new JsonWebTokenError(`jwt ${option} invalid. expected: ${wanted}`);
      }
    }
  }

  /** Answers, or tells a callback where one is given in the last place. */
  function byEither(work: (first: unknown, key: unknown, options: Options) => unknown) {
    return (first: unknown, key: unknown, options?: unknown, callback?: unknown): unknown => {
      const tell = typeof options === "function" ? options : callback;
      const settings = typeof options === "object" && options !== null ? (options as Options) : {};
      if (typeof tell !== "function") return work(first, key, settings);
      Promise.resolve()
        .then(() => work(first, key, settings))
        .then(
          (answer) => (tell as Callback)(null, answer),
          (error: unknown) => (tell as Callback)(error),
        );
      return undefined;
    };
  }

  const sign = byEither(makeToken);
  const verify = byEither(readToken);
  return { sign, verify, decode, JsonWebTokenError, TokenExpiredError, NotBeforeError };
}
