interface Controller {
  enqueue(chunk: unknown): void;
  close(): void;
  error(reason?: unknown): void;
  readonly desiredSize: number;
}
interface Source {
  start?(controller: Controller): unknown;
  pull?(controller: Controller): unknown;
  cancel?(reason?: unknown): unknown;
}
interface Waiting {
  resolve(result: IteratorResult<unknown, undefined>): void;
  reject(reason: unknown): void;
}

const END = { done: true, value: undefined } as const;

/** The web's streams, as far as bodies need them: they are read to their end, by one reader at a time. */
export class ReadableStream {
  readonly #source: Source;
  readonly #controller: Controller;
  readonly #queue: unknown[] = [];
  readonly #waiting: Waiting[] = [];
  #state: "open" | "closed" | "failed" = "open";
  #reason: unknown;
  #started: Promise<unknown>;
  #isPulling = false;
  #reader: StreamReader | undefined;
  #isDisturbed = false;

  constructor(source: Source | null = {}) {
    this.#source = source ?? {};
    this.#controller = {
      enqueue: (chunk) => {
        if (this.#state !== "open") throw new TypeError("The stream is closed");
        const waiting = this.#waiting.shift();
        if (waiting === undefined) this.#queue.push(chunk);
        else waiting.resolve({ done: false, value: chunk });
      },
      close: () => {
        if (this.#state !== "open") throw new TypeError("The stream is closed");
        this.#state = "closed";
        for (const waiting of this.#waiting.splice(0)) waiting.resolve(END);
      },
      error: (reason) => this.#fail(reason),
      desiredSize: 1,
    };
    this.#started = Promise.resolve(this.#source.start?.(this.#controller));
    this.#started.catch((reason) => this.#fail(reason));
  }

  /** Whether anything was read of it, or it was given up. */
  static isDisturbed(stream: ReadableStream): boolean {
    return stream.#isDisturbed;
  }

  #fail(reason: unknown): void {
    if (this.#state !== "open") return;
    this.#state = "failed";
    this.#reason = reason;
    for (const waiting of this.#waiting.splice(0)) waiting.reject(reason);
  }

  #read(): Promise<IteratorResult<unknown, undefined>> {
    this.#isDisturbed = true;
    if (this.#queue.length > 0) return Promise.resolve({ done: false, value: this.#queue.shift() });
    if (this.#state === "closed") return Promise.resolve(END);
    if (this.#state === "failed") return Promise.reject(this.#reason);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      void this.#pull();
    });
  }

  /** Asks the source for more for as long as somebody waits, once at a time. */
  async #pull(): Promise<void> {
    if (this.#isPulling || this.#source.pull === undefined) return;
    this.#isPulling = true;
    try {
      await this.#started;
      while (this.#waiting.length > 0 && this.#state === "open") {
        await this.#source.pull(this.#controller);
      }
    } catch (reason) {
      this.#fail(reason);
    } finally {
      this.#isPulling = false;
    }
  }

  async #giveUp(reason?: unknown): Promise<void> {
    this.#isDisturbed = true;
    if (this.#state === "failed") throw this.#reason;
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#queue.length = 0;
    for (const waiting of this.#waiting.splice(0)) waiting.resolve(END);
    await this.#source.cancel?.(reason);
  }

  get locked(): boolean {
    return this.#reader !== undefined;
  }

  getReader(): StreamReader {
    if (this.#reader !== undefined) throw new TypeError("The stream is locked: it has a reader");
    const isMine = () => {
      if (this.#reader !== reader) throw new TypeError("The reader was released");
    };
    const reader: StreamReader = {
      read: async () => {
        isMine();
        return this.#read();
      },
      cancel: async (reason) => {
        isMine();
        return this.#giveUp(reason);
      },
      releaseLock: () => {
        if (this.#reader === reader) this.#reader = undefined;
      },
    };
    this.#reader = reader;
    return reader;
  }

  async cancel(reason?: unknown): Promise<void> {
    if (this.#reader !== undefined) throw new TypeError("The stream is locked: it has a reader");
    return this.#giveUp(reason);
  }

  async *values(): AsyncGenerator<unknown, undefined> {
    const reader = this.getReader();
    let isOver = false;
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done === true) {
          isOver = true;
          return undefined;
        }
        yield value;
      }
    } finally {
      if (!isOver && this.#state === "open") await reader.cancel();
      reader.releaseLock();
    }
  }

  [Symbol.asyncIterator](): AsyncGenerator<unknown, undefined> {
    return this.values();
  }

  get [Symbol.toStringTag](): string {
    return "ReadableStream";
  }
}

interface StreamReader {
  read(): Promise<IteratorResult<unknown, undefined>>;
  cancel(reason?: unknown): Promise<void>;
  releaseLock(): void;
}

export const { isDisturbed } = ReadableStream;
Reflect.deleteProperty(ReadableStream, "isDisturbed");
