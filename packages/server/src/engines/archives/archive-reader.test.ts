import { randomBytes } from "node:crypto";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { createArchiveReader } from "./archive-reader.ts";
import { type MadeEntry, makeTar, makeTgz, makeZip } from "./archives.setup.ts";

const reader = createArchiveReader();
const limits = { maxEntries: 100, maxUnpackedBytes: 100_000 };

const read = async (archive: Buffer, wanted: RegExp = /./) => {
  const outcome = await reader.read(archive, limits, (path) => wanted.test(path));
  return outcome.kind === "refused"
    ? outcome.reason
    : outcome.files.map(({ path, contents }) => [path, Buffer.from(contents).toString()]);
};

const FORMS: readonly (readonly [string, (entries: readonly MadeEntry[]) => Buffer])[] = [
  ["tar", makeTar],
  ["tar.gz", makeTgz],
  ["zip", (entries) => makeZip(entries)],
];

describe.each(FORMS)("a %s", (_form, make) => {
  test("[TM-21] the wanted files are read in their order", async () => {
    const archive = make([
      { path: "./p/", type: "Directory" },
      { path: "p/plugin.json", contents: "{}" },
      { path: "p/image.png", contents: "x".repeat(70_000) },
      { path: "p/src/ä.js", contents: "export {}" },
      { path: "p/empty.js" },
    ]);
    expect(await read(archive, /\.(js|json)$/)).toEqual([
      ["p/plugin.json", "{}"],
      ["p/src/ä.js", "export {}"],
      ["p/empty.js", ""],
    ]);
  });

  test.each(["../evil.js", "p/../../evil.js", "/etc/passwd", "p/..", "C:/evil.js"])(
    "[TM-22] a path outside is refused: %s",
    async (path) => {
      expect(await read(make([{ path: "p/a.js" }, { path, contents: "x" }]))).toMatch(
        /path|relative/,
      );
    },
  );

  test("[TM-22] a link is refused, wherever it leads", async () => {
    const link = { path: "p/a.js", type: "SymbolicLink", linkpath: "b.js" } as const;
    expect(await read(make([link]))).toBe('The archive holds a link: "p/a.js".');
  });

  test("[TM-21] the number of files and their size together are bounded", async () => {
    const many = Array.from({ length: 101 }, (_, n) => ({ path: `p/${n}.js` }));
    expect(await read(make(many))).toBe("The archive holds more than 100 files.");
    const large = [
      { path: "a.js", contents: "a".repeat(60_000) },
      { path: "b.png", contents: "b".repeat(60_000) },
    ];
    expect(await read(make(large), /js$/)).toBe("The archive unpacks to more than 100000 bytes.");
  });

  test("[TM-21] a damaged archive is refused, wherever it ends", async () => {
    const whole = make([
      { path: "a.js", contents: randomBytes(3000) },
      { path: "b.js", contents: "x" },
    ]);
    for (let part = 0; part < 10; part++) {
      const end = Math.floor((whole.length * part) / 10) | 1;
      expect(await read(whole.subarray(0, end)), String(end)).toEqual(expect.any(String));
    }
  });
});

test("[TM-21] a file of a zip whose bytes are not those that were packed is refused, packed or not", async () => {
  const code = Buffer.from("export const secret = 1;");
  for (const stored of [true, false]) {
    const whole = makeZip([{ path: "a.js", contents: code }], { stored });
    expect(await read(whole)).toEqual([["a.js", String(code)]]);
    const at = stored ? whole.indexOf("secret") : whole.indexOf("PK\x01\x02") + 16;
    const damaged = Buffer.from(whole);
    damaged[at] = (damaged[at] ?? 0) ^ 1;
    expect(await read(damaged)).toBe('The archive is damaged: "a.js" is not what was packed.');
    expect(await read(damaged, /none/)).toEqual([]);
  }
});

test("[TM-22] whatever is neither a file nor a folder is refused", async () => {
  for (const type of ["Link", "CharacterDevice", "FIFO"] as const) {
    expect(await read(makeTar([{ path: "a.js", type, linkpath: "b" }]))).toMatch(/link|not a file/);
  }
});

test("[TM-21] little that unpacks to much is not unpacked", async () => {
  const bomb = gzipSync(Buffer.alloc(200_000_000));
  const before = process.memoryUsage().rss;
  expect(await read(bomb)).toBe("The archive unpacks to more than 100000 bytes.");
  expect(await read(gzipSync(makeTgz([{ path: "a.js" }])))).toMatch(/neither/);
  const lie = makeZip([{ path: "a.js", contents: Buffer.alloc(50_000_000) }], { claimedSize: 10 });
  expect(await read(lie)).toMatch(/damaged|unpacks/);
  expect(process.memoryUsage().rss - before).toBeLessThan(100_000_000);
});

test("[TM-21] others get their turn while a large archive is read", async () => {
  const contents = "x".repeat(4_000);
  const archive = makeTar(
    Array.from({ length: 4_000 }, (_, n) => ({ path: `p/${n}.js`, contents })),
  );
  let turns = 0;
  let isReading = true;
  const count = () => {
    turns += 1;
    if (isReading) setImmediate(count);
  };
  setImmediate(count);
  const large = { maxEntries: 5_000, maxUnpackedBytes: 20_000_000 };
  const outcome = await reader.read(archive, large, () => true);
  isReading = false;
  expect(outcome).toMatchObject({ kind: "read", files: { length: 4_000 } });
  expect(turns).toBeGreaterThan(4);
});

test("[TM-21] of several files of one name the last counts, as unpacking them would have it", async () => {
  const entries = ["first", "last"].map((contents) => ({ path: "p/a.js", contents }));
  for (const archive of [makeZip(entries), makeTgz(entries)]) {
    const outcome = await reader.read(archive, limits, () => true);
    const texts = outcome.kind === "read" ? outcome.files : [];
    expect(texts.map(({ contents }) => Buffer.from(contents).toString())).toEqual(["last"]);
  }
});

test("what is no archive is refused", async () => {
  for (const text of ["", "hello", "<html>not found</html>", "PK\x03\x04 and then nothing"]) {
    expect(await read(Buffer.from(text))).toMatch(/neither|damaged/);
  }
});
