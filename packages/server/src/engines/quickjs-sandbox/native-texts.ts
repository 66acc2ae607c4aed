import type { QuickJSSyncVariant } from "quickjs-emscripten-core";

/** The engine's module, as far as it is used beside what the library offers. */
export interface EngineModule {
  HEAPU8: Uint8Array;
  lengthBytesUTF8(text: string): number;
  stringToUTF8(text: string, start: number, maxBytes: number): number;
  UTF8ToString(start: number, maxBytes?: number): string;
  _malloc(bytes: number): number;
}

/**
 * The engine with texts that cross its border by the platform's own encoder: the one it comes with
 * goes through every character in JavaScript, twice. Both write zero-terminated UTF-8.
 * @param variant as `newVariant` makes it: how packages export their loader is seen to there
 * @param onLoaded is given the module before it is used
 */
export function withNativeTexts(
  variant: QuickJSSyncVariant,
  onLoaded: (module: EngineModule) => void = () => {},
): QuickJSSyncVariant {
  const importModuleLoader = async () => {
    const load = (await variant.importModuleLoader()) as unknown as () => Promise<EngineModule>;
    return async () => {
      const module = useNativeTexts(await load());
      onLoaded(module);
      return module;
    };
  };
  return {
    ...variant,
    importModuleLoader: importModuleLoader as unknown as QuickJSSyncVariant["importModuleLoader"],
  };
}

function useNativeTexts(module: EngineModule): EngineModule {
  const encoder = new TextEncoder();
  const decoder = new TextDecoder();
  const decodeAtMost = module.UTF8ToString;
  module.lengthBytesUTF8 = (text) => Buffer.byteLength(text);
  module.stringToUTF8 = (text, start, maxBytes) => {
    if (maxBytes <= 0) return 0;
    const { HEAPU8: bytes } = module;
    const { written } = encoder.encodeInto(text, bytes.subarray(start, start + maxBytes - 1));
    bytes[start + written] = 0;
    return written;
  };
  module.UTF8ToString = (start, maxBytes) => {
    if (start === 0 || maxBytes !== undefined) return decodeAtMost(start, maxBytes);
    const { HEAPU8: bytes } = module;
    const end = bytes.indexOf(0, start);
    return decoder.decode(bytes.subarray(start, end < 0 ? bytes.length : end));
  };
  return module;
}
