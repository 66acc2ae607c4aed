import { crc32, deflateRawSync, gzipSync } from "node:zlib";
import { Header } from "tar";

/** An entry of an archive made for a test; `type` is tar's. */
export interface MadeEntry {
  readonly path: string;
  readonly contents?: string | Buffer;
  readonly type?: "File" | "Directory" | "SymbolicLink" | "Link" | "CharacterDevice" | "FIFO";
  readonly linkpath?: string;
}

/** A tar of entries, with nothing checked. */
export function makeTar(entries: readonly MadeEntry[]): Buffer {
  const blocks = entries.flatMap(({ path, contents = "", type = "File", linkpath }) => {
    const body = Buffer.from(contents);
    const header = new Header({ path, size: body.length, type, mode: 0o644, mtime: new Date(0) });
    if (linkpath !== undefined) header.linkpath = linkpath;
    header.encode();
    if (!header.block) throw new Error("no block");
    return [header.block, body, Buffer.alloc((512 - (body.length % 512)) % 512)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

export const makeTgz = (entries: readonly MadeEntry[]): Buffer => gzipSync(makeTar(entries));

/** A zip of entries; `claimedSize` lies about the size of each, `stored` leaves them unpacked. */
export function makeZip(
  entries: readonly MadeEntry[],
  { claimedSize, stored = false }: { claimedSize?: number; stored?: boolean } = {},
): Buffer {
  const locals: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const { path, contents = "", type = "File" } of entries) {
    const body = Buffer.from(contents);
    const packed = stored ? body : deflateRawSync(body);
    const name = Buffer.from(path);
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(0x800, 2);
    common.writeUInt16LE(stored ? 0 : 8, 4);
    common.writeUInt32LE(crc32(body), 10);
    common.writeUInt32LE(packed.length, 14);
    common.writeUInt32LE(claimedSize ?? body.length, 18);
    common.writeUInt16LE(name.length, 22);
    const local = Buffer.concat([Buffer.from("PK\x03\x04"), common, name, packed]);
    const tail = Buffer.alloc(14);
    const mode = type === "SymbolicLink" ? 0o120777 : 0o100644;
    tail.writeUInt32LE((mode << 16) >>> 0, 6);
    tail.writeUInt32LE(offset, 10);
    directory.push(
      Buffer.concat([Buffer.from("PK\x01\x02"), Buffer.from([20, 3]), common, tail, name]),
    );
    locals.push(local);
    offset += local.length;
  }
  const central = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write("PK\x05\x06", "latin1");
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...locals, central, end]);
}
