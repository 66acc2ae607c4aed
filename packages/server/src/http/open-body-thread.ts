import { parentPort } from "node:worker_threads";
import type { OpeningAnswer, OpeningRequest } from "./body-opener.ts";
import { LayerTooLarge, openBody } from "./open-body.ts";

/** Opens bodies one after the other, beside the thread that answers requests. */
if (!parentPort) throw new Error("runs as a thread only");
const port = parentPort;

function answerTo({ body, maxBytes }: OpeningRequest): OpeningAnswer {
  try {
    const { content, form } = openBody({ ...body, bytes: bufferOf(body.bytes) }, maxBytes);
    return { kind: "opened", content: inOwnMemory(content), form };
  } catch (error) {
    if (error instanceof LayerTooLarge) return { kind: "too-large" };
    return { kind: "unreadable", reason: error instanceof Error ? error.message : "unreadable" };
  }
}

/** Such bytes can be handed over. */
function inOwnMemory(content: Buffer | string | undefined): Uint8Array | undefined {
  if (content === undefined) return undefined;
  return new Uint8Array(typeof content === "string" ? Buffer.from(content) : content);
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

port.on("message", (request: OpeningRequest) => {
  const answer = answerTo(request);
  const content = answer.kind === "opened" ? answer.content : undefined;
  port.postMessage(answer, content ? [content.buffer as ArrayBuffer] : []);
});
