import { defineConfig } from "vitest/config";

// The bounds only end what hangs: they leave room for machines that run much else, where a process
// starts in half a minute.
const shared = {
  pool: "forks",
  isolate: false,
  maxWorkers: 2,
  testTimeout: 120_000,
  hookTimeout: 180_000,
  expect: { poll: { timeout: 30_000 } },
} as const;

// The "source" condition lets tests run against TypeScript sources of sibling workspaces: no build.
const resolveSources = {
  resolve: { conditions: ["source"] },
  ssr: { resolve: { conditions: ["source"], externalConditions: ["source"] } },
};

export default defineConfig({
  test: {
    reporters: ["default", "./scripts/closing-line-reporter.ts"],
    projects: [
      {
        ...resolveSources,
        test: { ...shared, name: "core", include: ["packages/core/src/**/*.test.ts"] },
      },
      {
        ...resolveSources,
        test: {
          ...shared,
          name: "server",
          include: ["packages/server/src/**/*.test.ts", "scripts/*.test.ts"],
          globalSetup: ["packages/server/src/engines/sql/postgres-cluster.setup.ts"],
        },
      },
      {
        test: {
          ...shared,
          name: "compat",
          include: ["packages/compat/src/**/*.test.ts"],
          globalSetup: ["packages/compat/src/bundle.setup.ts"],
        },
      },
    ],
  },
});
