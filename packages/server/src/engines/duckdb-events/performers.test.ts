import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describePerformerSource } from "../../events/performers.contract.ts";
import { openDuckDbEvents } from "./duckdb-events.ts";

describePerformerSource("PerformerSource on DuckDB", async () => {
  const folder = mkdtempSync(join(tmpdir(), "hedgerow-performers-"));
  return {
    store: await openDuckDbEvents(join(folder, "events.duckdb")),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
});
