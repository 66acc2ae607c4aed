import { Worker } from "node:worker_threads";

/**
 * Starts a thread. In tests and development its TypeScript source is loaded by tsx, since a thread
 * takes no loader along.
 * @param module URL of the module to run, as a sibling of the caller: its `.ts` name
 */
export function openThread(module: URL, workerData: unknown): Worker {
  if (!import.meta.url.endsWith(".ts")) {
    return new Worker(new URL(module.href.replace(/\.ts$/, ".js")), { workerData });
  }
  const source = JSON.stringify(module.href);
  const tsx = JSON.stringify(import.meta.resolve("tsx/esm/api"));
  const loader = `import(${tsx}).then(({ tsImport }) => tsImport(${source}, ${source}))`;
  return new Worker(loader, { eval: true, workerData });
}
