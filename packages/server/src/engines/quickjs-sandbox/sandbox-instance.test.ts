import { expect, it } from "vitest";
import { DEFAULT_LIMITS } from "../../transformations/sandbox.ts";
import { recordHost } from "./sandbox.setup.ts";
import { SandboxInstance } from "./sandbox-instance.ts";
import { NO_EVENT, type ToThread } from "./sandbox-messages.ts";

it("[TS-25] is given up when its start blocks the thread", async () => {
  const sent: ToThread[] = [];
  const stopped: SandboxInstance[] = [];
  const program = { code: "", digest: "", methods: [], jobs: [], scheduledTasks: [], metrics: {} };
  const instance = new SandboxInstance(
    7,
    {
      ...{ program, projectId: 1, configId: 1, name: "of a test", config: {}, attachments: {} },
      ...{ allowedHosts: [], limits: DEFAULT_LIMITS, host: recordHost().host },
    },
    (message) => sent.push(message),
    (one) => stopped.push(one),
  );
  const started = instance.start();
  instance.moveTo((message) => sent.push(message), { instance: 7, event: NO_EVENT.start });
  expect(await started).toMatchObject({ kind: "failed", reason: "it blocked its thread" });
  expect(stopped).toEqual([instance]);
  expect(sent.map(({ kind }) => kind)).toEqual(["start"]);
});
