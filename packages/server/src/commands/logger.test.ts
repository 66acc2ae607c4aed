import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { createLogger, readable } from "./logger.ts";

/** A stream in the place of stdout, with what was written to it. */
function output(isTTY: boolean) {
  const stream = Object.assign(new PassThrough(), { isTTY });
  return {
    stream: stream as unknown as NodeJS.WriteStream,
    text: () => String(stream.read() ?? ""),
  };
}

test("[CL-12] logs are JSON lines where no one watches", () => {
  const { stream, text } = output(false);
  const logger = createLogger("info", stream);
  logger.debug("too small");
  logger.info({ url: "http://x" }, "ready");
  expect(JSON.parse(text())).toMatchObject({ level: 30, msg: "ready", url: "http://x" });
});

test("[CL-12] logs are readable lines on a terminal", () => {
  const { stream, text } = output(true);
  createLogger("warn", stream).warn({ count: 3 }, "careful");
  expect(text()).toMatch(/^\d\d:\d\d:\d\d warn {2}careful count=3\n$/);
});

test("[CL-12] an error is shown with its stack", () => {
  const line = JSON.stringify({
    level: 50,
    time: 0,
    msg: "failed",
    err: { stack: "Error: x\n  at y" },
  });
  expect(readable(line)).toMatch(/error failed\nError: x\n {2}at y\n$/);
});
