/**
 * Puts off what takes time and memory until it is asked for, then keeps it. Most routes of a service
 * are not called for a long time after its start, if ever.
 */
export function compileWhenUsed<Compiled extends object>(compile: () => Compiled): () => Compiled {
  let compiled: Compiled | undefined;
  return () => {
    compiled ??= compile();
    return compiled;
  };
}
