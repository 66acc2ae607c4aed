import { expect, it } from "vitest";
import { DEFAULT_LIMITS } from "../../transformations/sandbox.ts";
import { recordHost } from "./sandbox.setup.ts";
import { SandboxInstance } from "./sandbox-instance.ts";
import { NO_EVENT, type ToThread } from "./sandbox-messages.ts";

function settingsOf() {
  const program = { code: "", digest: "", methods: [], jobs: [], scheduledTasks: [], metrics: {} };
  return {
    ...{ program, projectId: 1, configId: 1, name: "of a test", config: {}, attachments: {} },
    ...{ allowedHosts: [], limits: DEFAULT_LIMITS, host: recordHost().host },
  };
}

it("[TS-33] ends with failed events when their thread is lost for ever, whoever is to blame", async () => {
  let sentTimes = 0;
  const send = ({ kind }: ToThread) => {
    if (kind === "transform") sentTimes += 1;
  };
  const instance = new SandboxInstance(7, settingsOf(), send, () => {});
  const outcomes = instance.transform([{ event: "one" }, { event: "two" }]);
  for (let loss = 0; loss < 50; loss += 1) instance.moveTo(send, null);
  expect((await outcomes).map(({ kind }) => kind)).toEqual(["failed", "failed"]);
  expect(sentTimes).toBeLessThan(50);
});

it("[TS-25] gives no answer that a thread waited for to the next one", async () => {
  const sent: string[] = [];
  const send = ({ kind }: ToThread) => void sent.push(kind);
  const instance = new SandboxInstance(7, settingsOf(), send, () => {});
  const question = { argument: ["key"], cause: null, origin: null } as const;
  instance.receive({ kind: "ask", instance: 7, ask: 1, op: "get", ...question });
  instance.moveTo(send, null);
  instance.receive({ kind: "ask", instance: 7, ask: 1, op: "get", ...question });
  await new Promise((done) => setTimeout(done));
  expect(sent).toEqual(["start", "answer"]);
});

it("[TS-34] cuts the last batch first, also in a new thread, so that none passes one that ended early", () => {
  const sent: string[] = [];
  const send = (message: ToThread) => {
    if ("id" in message) sent.push(`${message.kind} ${message.id}`);
  };
  const instance = new SandboxInstance(7, settingsOf(), send, () => {});
  const cut = new AbortController();
  const given = [{ event: {}, line: "{}", hops: 0 }];
  for (let count = 0; count < 3; count++) void instance.pass(given, cut.signal);
  void instance.pass(given, new AbortController().signal);
  cut.abort();
  const transformed = [1, 2, 3, 4].map((id) => `transform ${id}`);
  const cuts = ["cut 3", "cut 2", "cut 1"];
  expect(sent.slice(0, 7)).toEqual([...transformed, ...cuts]);
  sent.length = 0;
  instance.moveTo(send, null);
  expect(sent).toEqual([...transformed, ...cuts]);
});

it.each([
  "",
  "+undefined",
  "+",
  "~{}",
  '~{"p":null}\n',
  '~{"q":5}\n',
  '~{"f":{"length":1}}\n',
  "!undefined",
  "*",
])("[TS-33] takes an event for failed whose outcome is told as %j", async (texts) => {
  const instance = new SandboxInstance(
    7,
    settingsOf(),
    () => {},
    () => {},
  );
  const outcomes = instance.transform([{ event: "one" }]);
  const cpuMs = Float64Array.of(0);
  instance.receive({ kind: "transformed", instance: 7, id: 1, texts, cpuMs, limits: [] });
  expect(await outcomes).toMatchObject([
    { kind: "failed", reason: "it answered what cannot be read", isLimit: true },
  ]);
});

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
