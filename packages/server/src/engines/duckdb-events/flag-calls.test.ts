import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describeFlagCalls } from "../../flags/flag-calls.contract.ts";
import { openDuckDbEvents } from "./duckdb-events.ts";

describeFlagCalls("FlagCalls on DuckDB", async () => {
  const folder = mkdtempSync(join(tmpdir(), "hedgerow-flag-calls-"));
  const path = join(folder, "events.duckdb");
  const store = await openDuckDbEvents(path);
  return {
    store,
    reopen: async () => {
      await store.close();
      return await openDuckDbEvents(path);
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
});
