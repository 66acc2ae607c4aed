import { Worker } from "node:worker_threads";

/**
 * Starts a thread from a module beside this one: the compiled one where this is compiled; in tests
 * and development the TypeScript source, which tsx loads (a thread takes no loader along).
 */
export function openThread(name: string, workerData: unknown): Worker {
  if (!import.meta.url.endsWith(".ts")) {
    return new Worker(new URL(`./${name}.js`, import.meta.url), { workerData });
  }
  const source = JSON.stringify(new URL(`./${name}.ts`, import.meta.url).href);
  const tsx = JSON.stringify(import.meta.resolve("tsx/esm/api"));
  const loader = `import(${tsx}).then(({ tsImport }) => tsImport(${source}, ${source}))`;
  return new Worker(loader, { eval: true, workerData });
}
