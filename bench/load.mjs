// One load run in a process of its own: URL, connections, seconds, body. Prints JSON.
//
// Raw sockets, one request at a time on each, kept alive, and of every answer only what tells its end
// and its status is read. A client that does more (parses all headers, keeps answers) costs as much as
// the servers it measures, shares their cores, and so makes a fast server look slower than it is.
import { connect } from "node:net";

const [url, connectionCount, seconds, body] = process.argv.slice(2);
const { hostname, port, pathname, search } = new URL(url);
const head = [
  `POST ${pathname}${search} HTTP/1.1`,
  `Host: ${hostname}:${port}`,
  "Content-Type: application/json",
  `Content-Length: ${Buffer.byteLength(body)}`,
  "",
  "",
].join("\r\n");
const request = Buffer.from(head + body);
const HEAD_END = Buffer.from("\r\n\r\n");
const BUCKETS_PER_MS = 20;

const startedMs = performance.now();
const endsMs = startedMs + Number(seconds) * 1000;
/** How many answers took how long, in steps of 1/20 ms; the last one counts all longer ones. */
const histogram = new Uint32Array(BUCKETS_PER_MS * 10_000);
let answers = 0;
let errors = 0;

function converse() {
  return new Promise((resolve) => {
    let sentMs = 0;
    let isOk = false;
    /** Bytes still to come of the answer under way; -1 before its head was read. */
    let missing = -1;
    /** What has come of a head that is not complete. */
    let part = null;

    const send = () => {
      sentMs = performance.now();
      missing = -1;
      socket.write(request);
    };

    const take = (length, shared) => {
      let chunk = shared.subarray(0, length);
      if (missing === -1) {
        if (part) chunk = Buffer.concat([part, chunk]);
        const headEnd = chunk.indexOf(HEAD_END);
        if (headEnd === -1) {
          part = Buffer.from(chunk);
          return;
        }
        part = null;
        const text = chunk.latin1Slice(0, headEnd);
        isOk = text.startsWith("HTTP/1.1 200 ");
        missing = Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1]) + headEnd + 4;
        if (Number.isNaN(missing)) throw new Error(`an answer of unknown length: ${text}`);
      }
      missing -= chunk.length;
      if (missing > 0) return;
      if (missing < 0) throw new Error("more than one answer to a request");
      const nowMs = performance.now();
      if (isOk) answers++;
      else errors++;
      const bucket = Math.floor((nowMs - sentMs) * BUCKETS_PER_MS);
      histogram[Math.min(bucket, histogram.length - 1)]++;
      if (nowMs < endsMs) send();
      else socket.destroy();
    };

    const socket = connect({
      host: hostname,
      port: Number(port),
      noDelay: true,
      onread: { buffer: Buffer.allocUnsafe(65_536), callback: take },
    });
    socket.once("connect", send);
    socket.once("error", () => errors++);
    socket.once("close", resolve);
  });
}

/** Below how many milliseconds a share of all answers came. */
function percentileMs(share) {
  let left = (answers + errors) * share;
  let bucket = 0;
  for (; bucket < histogram.length && left > 0; bucket++) left -= histogram[bucket];
  return bucket / BUCKETS_PER_MS;
}

await Promise.all(Array.from({ length: Number(connectionCount) }, converse));
const elapsedMs = performance.now() - startedMs;
console.log(
  JSON.stringify({
    answers,
    perSecond: (answers / elapsedMs) * 1000,
    p50Ms: percentileMs(0.5),
    p99Ms: percentileMs(0.99),
    errors,
  }),
);
