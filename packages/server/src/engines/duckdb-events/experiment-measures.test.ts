import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describeExperimentMeasures } from "../../experiments/experiment-measures.contract.ts";
import { openDuckDbEvents } from "./duckdb-events.ts";

describeExperimentMeasures("ExperimentMeasures on DuckDB", async () => {
  const folder = mkdtempSync(join(tmpdir(), "hedgerow-measures-"));
  return {
    store: await openDuckDbEvents(join(folder, "events.duckdb")),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
});
