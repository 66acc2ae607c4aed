import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { modelPersons, USERS } from "./numbered-events.setup.ts";
import { temporaryPipeline } from "./pipeline.setup.ts";

/** More of them take minutes: set the variable to 20 before a release. */
const ROUNDS = Number(process.env.HEDGEROW_CRASH_ROUNDS ?? 5);

/** Runs the capturing process, kills it some time after its first acknowledgement, answers the last one. */
async function captureUntilKilled(given: {
  folder: string;
  projectId: number;
  first: number;
  afterMs: number;
}): Promise<number> {
  const script = fileURLToPath(new URL("./pipeline-process.setup.ts", import.meta.url));
  const child = spawn(
    process.execPath,
    [
      ...["--import", "tsx", "--conditions=source", script],
      ...[given.folder, String(given.projectId), String(given.first)],
    ],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  let output = "";
  const ended = new Promise((resolve) => child.once("close", resolve));
  child.stdout.setEncoding("utf8");
  child.stdout.on("data", (text: string) => {
    if (output === "") setTimeout(() => child.kill("SIGKILL"), given.afterMs);
    output += text;
  });
  await ended;
  const lines = output.slice(0, output.lastIndexOf("\n")).split("\n");
  return Number(lines.at(-1));
}

describe("a process killed at random moments under load", () => {
  it(
    "[PI-50] has stored every acknowledged event exactly once, in order, with its persons",
    async () => {
      const pipeline = temporaryPipeline();
      const { folder } = pipeline;
      const stores = await pipeline.openStores();
      const projectId = await stores.newProject();
      await pipeline.closeStores();

      const acknowledged: number[] = [];
      let first = 0;
      for (let round = 0; round < ROUNDS; round++) {
        const afterMs = 20 + Math.random() * 700;
        const upTo = await captureUntilKilled({ folder, projectId, first, afterMs });
        for (let number = first; number < upTo; number++) acknowledged.push(number);
        // Events of the last, unanswered requests may be there too: others take their numbers up.
        first = upTo + 1000;
      }
      expect(acknowledged.length).toBeGreaterThan(0);

      const run = await pipeline.start();
      await run.settle();
      const stored: number[] = [];
      for (let offset = 0; ; offset += 1000) {
        const query = { projectId, limit: 1000, offset, order: "oldest-first" } as const;
        const { events, hasMore } = await run.events.events(query);
        for (const { properties, personId } of events) {
          stored.push(properties.number as number);
          expect(personId).toMatch(/^[0-9a-f-]{36}$/);
        }
        if (!hasMore) break;
      }
      expect(new Set(stored).size).toBe(stored.length);
      const missing = new Set(acknowledged);
      for (const number of stored) missing.delete(number);
      expect([...missing]).toEqual([]);
      expect(await run.events.deadLetters({ limit: 10 })).toEqual([]);

      const model = modelPersons(stored);
      expect(model.size).toBeGreaterThan(USERS);
      for (let user = 0; user < USERS; user++) {
        const expected = model.get(`user-${user}`);
        const person = await run.persons.personByDistinctId(projectId, `user-${user}`);
        expect(person?.properties).toEqual(expected?.properties);
        expect(person?.distinctIds.toSorted()).toEqual(expected?.distinctIds.toSorted());
        const history: unknown[] = [];
        for (let isMore = true; isMore; ) {
          const page = await run.events.events({
            projectId,
            personId: person?.uuid ?? "",
            limit: 1000,
            offset: history.length,
            order: "oldest-first",
          });
          history.push(...page.events.map(({ properties }) => properties.number));
          isMore = page.hasMore;
        }
        expect(history).toEqual(expected?.numbers.toSorted((a, b) => a - b));
      }
      await pipeline.remove();
    },
    60_000 + ROUNDS * 20_000,
  );
});
