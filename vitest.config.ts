import { defineConfig } from "vitest/config";

const shared = {
  pool: "forks",
  isolate: false,
  maxWorkers: 2,
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
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          ...shared,
          name: "compat",
          include: ["packages/compat/src/**/*.test.ts"],
          globalSetup: ["packages/compat/src/bundle.setup.ts"],
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
