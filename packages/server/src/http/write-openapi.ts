import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pino } from "pino";
import { composeService } from "../compose.ts";
import { readConfig } from "../config.ts";
import { collectSchemas, describeApi } from "./openapi.ts";

const file = fileURLToPath(new URL("../../../../openapi.json", import.meta.url));
const data = mkdtempSync(join(tmpdir(), "hedgerow-openapi-"));
const service = await composeService(readConfig(["--data", data], {}), pino({ level: "silent" }), {
  prepareApp: collectSchemas,
});
await service.app.ready();
const described = describeApi(service.app);
await service.close();
rmSync(data, { recursive: true, force: true });

if (!process.argv.includes("--check")) {
  writeFileSync(file, described);
} else if (readFileSync(file, "utf8") !== described) {
  console.error("openapi.json no longer matches the routes: run `npm run openapi` and commit it");
  process.exitCode = 1;
}
