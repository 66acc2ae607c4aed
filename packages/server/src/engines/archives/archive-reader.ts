import { promisify } from "node:util";
import { crc32, gunzip } from "node:zlib";
import { Header, Parser, type ReadEntry } from "tar";
import { type Entry, fromBufferPromise } from "yauzl";
import { createSlices } from "../../platform/slices.ts";
import type {
  ArchiveFile,
  ArchiveLimits,
  ArchiveOutcome,
  ArchiveReader,
} from "../../transformations/archive-reader.ts";

/** {@link ArchiveReader} by node-tar and yauzl. Others are served while a large archive is read. */
export function createArchiveReader(): ArchiveReader {
  return {
    async read(archive, limits, isWanted) {
      const bytes = Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength);
      const shelf = new Shelf(limits, isWanted);
      try {
        if (startsWith(bytes, ZIP)) await readZip(bytes, shelf);
        else await readTar(await unpack(bytes, limits), shelf);
      } catch (error) {
        if (error instanceof Unfit) return { kind: "refused", reason: error.message };
        return { kind: "refused", reason: `The archive is damaged: ${messageOf(error)}.` };
      }
      return shelf.outcome();
    },
  };
}

/** A reason to refuse an archive, for its sender. */
class Unfit extends Error {}

/** The files that were met so far, within limits. */
class Shelf {
  readonly #limits: ArchiveLimits;
  readonly #isWanted: (path: string) => boolean;
  readonly #files = new Map<string, ArchiveFile>();
  #entries = 0;
  #bytes = 0;

  constructor(limits: ArchiveLimits, isWanted: (path: string) => boolean) {
    this.#limits = limits;
    this.#isWanted = isWanted;
  }

  /** Counts an entry; its path without a leading `./`. */
  enter(path: string): string {
    if (++this.#entries > this.#limits.maxEntries) {
      throw new Unfit(`The archive holds more than ${this.#limits.maxEntries} files.`);
    }
    const bare = path.replace(/^(?:\.\/)+/, "").replace(/\/+$/, "");
    const isOutside = /^(?:\/|[a-z]:)/i.test(bare) || /[\\\0]/.test(bare);
    const parts = bare.split("/");
    if (isOutside || parts.some((part) => part === ".." || part === "." || part === "")) {
      if (bare === "" || bare === ".") return "";
      throw new Unfit(`The archive holds a path that it must not: "${path.slice(0, 200)}".`);
    }
    return bare;
  }

  count(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > this.#limits.maxUnpackedBytes) throw tooLarge(this.#limits);
  }

  isWanted(path: string): boolean {
    return this.#isWanted(path);
  }

  put(path: string, contents: Uint8Array): void {
    this.#files.set(path, { path, contents });
  }

  outcome(): ArchiveOutcome {
    return { kind: "read", files: [...this.#files.values()] };
  }
}

const NO_ARCHIVE = "It is neither a .zip nor a .tar.gz archive.";
const ZIP = Buffer.from("PK");
const GZIP = Buffer.from([0x1f, 0x8b]);
const ZSTANDARD = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);
/** A tar has a header for each file, padding and its end. */
const TAR_OVERHEAD_PER_ENTRY = 2048;

function startsWith(bytes: Buffer, magic: Buffer): boolean {
  return bytes.subarray(0, magic.length).equals(magic);
}

/** The tar in a `.tar.gz`, unpacked once and no further than allowed. */
async function unpack(bytes: Buffer, limits: ArchiveLimits): Promise<Buffer> {
  let tar = bytes;
  if (startsWith(bytes, GZIP)) {
    const maxOutputLength =
      limits.maxUnpackedBytes + limits.maxEntries * TAR_OVERHEAD_PER_ENTRY + 1024 * 1024;
    try {
      tar = await promisify(gunzip)(bytes, { maxOutputLength });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") throw tooLarge(limits);
      throw error;
    }
  }
  // The parser would unpack what is still packed, with no bound.
  if (startsWith(tar, GZIP) || startsWith(tar, ZSTANDARD)) {
    throw new Unfit(NO_ARCHIVE);
  }
  if (tar.length < TAR_BLOCK_BYTES || !new Header(tar).cksumValid) throw new Unfit(NO_ARCHIVE);
  if (tar.length % TAR_BLOCK_BYTES !== 0) throw new Unfit("The archive is damaged: it ends early.");
  return tar;
}

const TAR_BLOCK_BYTES = 512;
const TAR_FILES: readonly string[] = ["File", "OldFile", "ContiguousFile"];

/** Parsed at once. */
const TAR_PORTION_BYTES = 64 * 1024;

async function readTar(bytes: Buffer, shelf: Shelf): Promise<void> {
  const parser = new Parser({ strict: true });
  const parsed = new Promise<void>((resolve, reject) => {
    let failure: unknown;
    const fail = (error: unknown) => {
      failure ??= error;
      reject(error);
    };
    parser.on("entry", (entry: ReadEntry) => {
      if (failure === undefined) {
        try {
          takeEntry(entry, shelf, fail);
          return;
        } catch (error) {
          fail(error);
        }
      }
      entry.resume();
    });
    parser.on("end", () => resolve());
    parser.on("error", (error: Error & { tarCode?: string }) =>
      fail(error.tarCode === "TAR_BAD_ARCHIVE" ? new Unfit(NO_ARCHIVE) : error),
    );
  });
  let isRefused = false;
  parsed.catch(() => {
    isRefused = true;
  });
  const slices = createSlices();
  for (let from = 0; from < bytes.length && !isRefused; from += TAR_PORTION_BYTES) {
    if (slices.isOver()) await slices.next();
    parser.write(bytes.subarray(from, from + TAR_PORTION_BYTES));
  }
  parser.end();
  await parsed;
}

function takeEntry(entry: ReadEntry, shelf: Shelf, fail: (error: unknown) => void): void {
  const path = shelf.enter(entry.path);
  if (entry.type === "Link" || entry.type === "SymbolicLink") throw linkRefused(entry.path);
  const isFile = TAR_FILES.includes(entry.type);
  if (!isFile && entry.type !== "Directory") {
    throw new Unfit(`The archive holds "${entry.path.slice(0, 200)}", which is not a file.`);
  }
  shelf.count(entry.size);
  if (!isFile || path === "" || !shelf.isWanted(path)) return void entry.resume();
  const chunks: Buffer[] = [];
  entry.on("data", (chunk: Buffer) => chunks.push(chunk));
  entry.on("end", () => shelf.put(path, Buffer.concat(chunks)));
  entry.on("error", fail);
}

async function readZip(bytes: Buffer, shelf: Shelf): Promise<void> {
  const zip = await fromBufferPromise(bytes, { lazyEntries: true, autoClose: false });
  const slices = createSlices();
  for await (const entry of zip.eachEntry()) {
    const path = shelf.enter(entry.fileName);
    if (isZipLink(entry)) throw linkRefused(entry.fileName);
    if (entry.fileName.endsWith("/") || path === "") continue;
    // What unpacks to another size than the archive says ends with an error.
    shelf.count(entry.uncompressedSize);
    if (!shelf.isWanted(path)) continue;
    if (entry.isEncrypted()) throw new Unfit("The archive is encrypted.");
    // Filled as it is unpacked: to put a large file together at its end would keep others waiting.
    const contents = Buffer.alloc(entry.uncompressedSize);
    let filled = 0;
    let checksum = 0;
    for await (const chunk of await zip.openReadStreamPromise(entry)) {
      if (slices.isOver()) await slices.next();
      checksum = crc32(chunk, checksum);
      filled += (chunk as Buffer).copy(contents, filled);
    }
    if (checksum !== entry.crc32 || filled !== contents.length) {
      throw new Unfit(`The archive is damaged: "${path.slice(0, 200)}" is not what was packed.`);
    }
    shelf.put(path, contents);
  }
}

const UNIX = 3;

/** Zip archives of Unix keep the mode of a file in the upper half of its attributes. */
function isZipLink({ versionMadeBy, externalFileAttributes }: Entry): boolean {
  return versionMadeBy >> 8 === UNIX && ((externalFileAttributes >>> 16) & 0o170000) === 0o120000;
}

function linkRefused(path: string): Unfit {
  return new Unfit(`The archive holds a link: "${path.slice(0, 200)}".`);
}

function tooLarge({ maxUnpackedBytes }: ArchiveLimits): Unfit {
  return new Unfit(`The archive unpacks to more than ${maxUnpackedBytes} bytes.`);
}

function messageOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(/\.$/, "");
}
