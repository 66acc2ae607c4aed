/** What the engines know and the libraries of the compiler's target do not. */
interface String {
  /** ES2024. */
  toWellFormed(): string;
}

/** Of WebAssembly, what the types of the platform leave out. */
declare namespace WebAssembly {
  // biome-ignore lint/complexity/noBannedTypes: it has no members of interest
  type Module = {};
  class Memory {
    constructor(size: { initial: number; maximum: number });
    readonly buffer: ArrayBuffer;
  }
  function compile(bytes: Uint8Array): Promise<Module>;
}
