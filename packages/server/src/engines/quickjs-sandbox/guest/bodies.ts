import { fromLatin1, type GuestCore, toLatin1, utf8, viewOf } from "./part.ts";
import { isDisturbed, ReadableStream } from "./streams.ts";

/** Bytes as they crossed the border: taken over as they are, since loops over them take long. */
export class CrossedBytes {
  readonly latin1: string | null;
  constructor(latin1: string | null) {
    this.latin1 = latin1;
  }
}

/** A body as it is sent, and the type it has by itself; `null` where there is none. */
export interface Content {
  readonly latin1: string | null;
  readonly stream?: ReadableStream;
  readonly type: string | null;
}
type Parameters = Iterable<[string, string]> & { toString(): string };

/** What requests and answers have in common. */
export interface BodyOf {
  readonly body: ReadableStream | null;
  readonly bodyUsed: boolean;
  text(): Promise<string>;
}
export interface Bodies {
  readonly Blob: unknown;
  readonly File: unknown;
  readonly FormData: unknown;
  /** @param typeOf the type that the headers beside it tell */
  readonly Body: new (
    content: Content,
    typeOf: () => string | null,
  ) => BodyOf;
  contentOf(body: unknown): Content;
  /** All of it, as it is sent; read nowhere else then. */
  take(body: BodyOf): Promise<string>;
  copyOf(body: BodyOf): CrossedBytes;
  isEmpty(body: BodyOf): boolean;
}

/** The classes of what is sent and answered. */
export function makeBodies(core: GuestCore): Bodies {
  const { call } = core;
  const { URLSearchParams } = core.part("url") as {
    URLSearchParams: new (text?: string) => Parameters;
  };

  class Blob {
    readonly #latin1: string;
    readonly type: string;
    constructor(parts: unknown = [], options: { type?: string } = {}) {
      if (typeof parts !== "object" || parts === null || !(Symbol.iterator in parts)) {
        throw new TypeError("The parts of a Blob have to be a list");
      }
      const latin1 = [...(parts as Iterable<unknown>)].map((part) => contentOf(part).latin1 ?? "");
      this.#latin1 = latin1.join("");
      const type = String(options?.type ?? "");
      this.type = /[^ -~]/.test(type) ? "" : type.toLowerCase();
    }
    get size(): number {
      return this.#latin1.length;
    }
    slice(start?: number, end?: number, type?: string): Blob {
      const bytes = new CrossedBytes(this.#latin1.slice(start, end));
      return new Blob([bytes], { type: type ?? "" });
    }
    async text(): Promise<string> {
      return decodeUtf8(this.#latin1);
    }
    async arrayBuffer(): Promise<ArrayBuffer> {
      return fromLatin1(this.#latin1).buffer;
    }
    async bytes(): Promise<Uint8Array> {
      return fromLatin1(this.#latin1);
    }
    stream(): ReadableStream {
      return streamOf(this.#latin1);
    }
    get [Symbol.toStringTag](): string {
      return "Blob";
    }
    static bytesOf(blob: Blob): string {
      return blob.#latin1;
    }
  }
  const { bytesOf } = Blob;
  Reflect.deleteProperty(Blob, "bytesOf");

  class File extends Blob {
    readonly name: string;
    readonly lastModified: number;
    constructor(
      parts: unknown,
      name: unknown,
      options: { type?: string; lastModified?: number } = {},
    ) {
      super(parts, options);
      this.name = String(name);
      this.lastModified = Number(options?.lastModified ?? Date.now());
    }
    override get [Symbol.toStringTag](): string {
      return "File";
    }
  }

  class FormData {
    #fields: [name: string, value: string | File][] = [];
    append(name: unknown, value: unknown, fileName?: unknown): void {
      this.#fields.push([wellFormed(name), fieldOf(value, fileName)]);
    }
    set(name: unknown, value: unknown, fileName?: unknown): void {
      const key = wellFormed(name);
      const field: [string, string | File] = [key, fieldOf(value, fileName)];
      const at = this.#fields.findIndex(([own]) => own === key);
      if (at < 0) this.#fields.push(field);
      else {
        this.#fields[at] = field;
        this.#fields = this.#fields.filter(([own], index) => own !== key || index === at);
      }
    }
    delete(name: unknown): void {
      this.#fields = this.#fields.filter(([own]) => own !== wellFormed(name));
    }
    get(name: unknown): string | File | null {
      return this.#fields.find(([own]) => own === wellFormed(name))?.[1] ?? null;
    }
    getAll(name: unknown): (string | File)[] {
      return this.#fields.filter(([own]) => own === wellFormed(name)).map(([, value]) => value);
    }
    has(name: unknown): boolean {
      return this.#fields.some(([own]) => own === wellFormed(name));
    }
    forEach(callback: (value: string | File, name: string, form: unknown) => void): void {
      for (const [name, value] of this) callback(value, name, this);
    }
    *entries(): Generator<[string, string | File]> {
      for (let at = 0; at < this.#fields.length; at += 1) {
        yield [...(this.#fields[at] as [string, string | File])];
      }
    }
    *keys(): Generator<string> {
      for (const [name] of this.entries()) yield name;
    }
    *values(): Generator<string | File> {
      for (const [, value] of this.entries()) yield value;
    }
    [Symbol.iterator](): Generator<[string, string | File]> {
      return this.entries();
    }
    get [Symbol.toStringTag](): string {
      return "FormData";
    }
  }

  function fieldOf(value: unknown, fileName: unknown): string | File {
    if (!(value instanceof Blob)) return wellFormed(value);
    if (value instanceof File && fileName === undefined) return value;
    return new File([value], fileName ?? "blob", { type: value.type });
  }

  /** A form as it is sent. */
  function multipart(form: FormData): Content {
    const boundary = `----form${Math.random().toString(36).slice(2)}`;
    let latin1 = "";
    for (const [name, value] of form) {
      const head = `--${boundary}\r\nContent-Disposition: form-data; name="${quoted(name)}"`;
      if (typeof value === "string") latin1 += utf8(`${head}\r\n\r\n${withLineEnds(value)}\r\n`);
      else {
        const type = value.type === "" ? "application/octet-stream" : value.type;
        const file = `; filename="${quoted(value.name)}"\r\nContent-Type: ${type}\r\n\r\n`;
        latin1 += `${utf8(`${head}${file}`)}${bytesOf(value)}\r\n`;
      }
    }
    const type = `multipart/form-data; boundary=${boundary}`;
    return { latin1: `${latin1}--${boundary}--\r\n`, type };
  }

  function decodeUtf8(latin1: string): string {
    const options = { encoding: "utf-8", fatal: false, ignoreBOM: false };
    return call("decode", ["text", latin1, options]) as string;
  }

  function contentOf(body: unknown): Content {
    if (body === undefined || body === null) return { latin1: null, type: null };
    if (body instanceof CrossedBytes) return { latin1: body.latin1, type: null };
    if (body instanceof URLSearchParams) {
      const type = "application/x-www-form-urlencoded;charset=UTF-8";
      return { latin1: body.toString(), type };
    }
    if (body instanceof Blob) return { latin1: bytesOf(body), type: body.type || null };
    if (body instanceof FormData) return multipart(body);
    if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) {
      return { latin1: toLatin1(viewOf(body), core), type: null };
    }
    if (body instanceof ReadableStream) return { latin1: null, stream: body, type: null };
    if (typeof body === "object" && Symbol.asyncIterator in body) {
      return { latin1: null, stream: gathered(body as AsyncIterable<unknown>), type: null };
    }
    return { latin1: utf8(String(body)), type: "text/plain;charset=UTF-8" };
  }

  function streamOf(latin1: string): ReadableStream {
    return new ReadableStream({
      start(controller) {
        if (latin1 !== "") controller.enqueue(fromLatin1(latin1));
        controller.close();
      },
    });
  }

  function gathered(chunks: AsyncIterable<unknown>): ReadableStream {
    const iterator = chunks[Symbol.asyncIterator]();
    return new ReadableStream({
      async pull(controller) {
        const { done, value } = await iterator.next();
        if (done === true) controller.close();
        else controller.enqueue(value);
      },
    });
  }

  class Body {
    #latin1: string | null;
    #stream: ReadableStream | undefined;
    #isTaken = false;
    readonly #typeOf: () => string | null;
    constructor({ latin1, stream }: Content, typeOf: () => string | null) {
      this.#latin1 = latin1;
      this.#stream = stream;
      this.#typeOf = typeOf;
    }
    get body(): ReadableStream | null {
      if (this.#latin1 === null && this.#stream === undefined) return null;
      this.#stream ??= streamOf(this.#latin1 ?? "");
      return this.#stream;
    }
    get bodyUsed(): boolean {
      return this.#isTaken || (this.#stream !== undefined && isDisturbed(this.#stream));
    }
    async #take(): Promise<string> {
      if (this.bodyUsed || this.#stream?.locked === true) throw used();
      if (this.#latin1 === null && this.#stream === undefined) return "";
      this.#isTaken = true;
      if (this.#latin1 !== null) return this.#latin1;
      let latin1 = "";
      for await (const chunk of this.#stream as ReadableStream) {
        const bytes = typeof chunk === "string" ? utf8(chunk) : toLatin1(viewOf(chunk), core);
        latin1 += bytes;
      }
      return latin1;
    }
    async text(): Promise<string> {
      return decodeUtf8(await this.#take());
    }
    async json(): Promise<unknown> {
      return JSON.parse(await this.text());
    }
    async arrayBuffer(): Promise<ArrayBuffer> {
      return fromLatin1(await this.#take()).buffer;
    }
    async bytes(): Promise<Uint8Array> {
      return fromLatin1(await this.#take());
    }
    async blob(): Promise<Blob> {
      const type = this.#typeOf() ?? "";
      return new Blob([new CrossedBytes(await this.#take())], { type });
    }
    async formData(): Promise<FormData> {
      if (!/^application\/x-www-form-urlencoded\b/i.test(this.#typeOf() ?? "")) {
        throw new TypeError("Only forms of application/x-www-form-urlencoded can be read here");
      }
      const form = new FormData();
      for (const [name, value] of new URLSearchParams(await this.text())) form.append(name, value);
      return form;
    }
    async buffer(): Promise<unknown> {
      const { Buffer } = core.part("buffer") as { Buffer: { from(bytes: Uint8Array): unknown } };
      return Buffer.from(fromLatin1(await this.#take()));
    }
    static take(body: Body): Promise<string> {
      return body.#take();
    }
    static copyOf(body: Body): CrossedBytes {
      if (body.bodyUsed || body.#stream?.locked === true) throw used();
      if (body.#latin1 === null && body.#stream !== undefined) {
        throw new TypeError("What comes as a stream cannot be copied here");
      }
      return new CrossedBytes(body.#latin1);
    }
    static isEmpty(body: Body): boolean {
      return body.#latin1 === null && body.#stream === undefined;
    }
  }
  const { take, copyOf, isEmpty } = Body;
  for (const name of ["take", "copyOf", "isEmpty"]) Reflect.deleteProperty(Body, name);

  return {
    Blob,
    File,
    FormData,
    Body,
    contentOf,
    take: (body) => take(body as Body),
    copyOf: (body) => copyOf(body as Body),
    isEmpty: (body) => isEmpty(body as Body),
  };
}

const used = () => new TypeError("Body is unusable: Body has already been read");

function wellFormed(value: unknown): string {
  return String(value).toWellFormed();
}

/** The lines of a form end as those of the web do. */
function withLineEnds(text: string): string {
  return text.replace(/\r\n|\r|\n/g, "\r\n");
}

/** A name in the head of a part. */
function quoted(name: string): string {
  return withLineEnds(name).replaceAll("\r", "%0D").replaceAll("\n", "%0A").replaceAll('"', "%22");
}
