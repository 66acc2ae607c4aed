// Captures over kept-alive connections in a process of its own. Arguments: port, path, connections,
// seconds, events per request. Bodies are made before the clock starts. Prints JSON.
import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import { PROJECT_KEY } from "./measured-server.mjs";

const [port, path, connections, seconds, perRequest] = process.argv
  .slice(2)
  .map((argument, index) => (index === 1 ? argument : Number(argument)));
const DISTINCT_IDS = 3000;
/** Enough for this many events a second; a faster server ends the run early. */
const MAX_PER_SECOND = perRequest > 1 ? 20_000 : 6000;

const pick = (list, n) => list[n % list.length];
const hex = () => randomBytes(16).toString("hex");
const uuid = (digits = hex()) =>
  `${digits.slice(0, 8)}-${digits.slice(8, 12)}-7${digits.slice(13, 16)}-8${digits.slice(17, 20)}-${digits.slice(20)}`;

/**
 * Events as a browser SDK sends them, about 1 kB each; uuid and time are put in between the parts.
 * Each event is later than the one before, so that it moves what is known of its person.
 */
const templates = Array.from({ length: DISTINCT_IDS }, (_, n) => {
  const event = {
    event: pick(["$pageview", "$pageleave", "$autocapture", "order placed", "checkout"], n),
    distinct_id: `user-${n}`,
    properties: {
      $os: pick(["Windows", "Mac OS X", "Linux", "iOS", "Android"], n),
      $os_version: `${n % 15}.${n % 7}.0`,
      $browser: pick(["Chrome", "Safari", "Firefox", "Microsoft Edge"], n),
      $browser_version: 90 + (n % 40),
      $device_type: pick(["Desktop", "Mobile", "Tablet"], n),
      $timezone: pick(["Europe/Amsterdam", "America/New_York", "Asia/Tokyo"], n),
      $current_url: `https://shop.example.com/products/${n}?utm_source=news&ref=${hex()}`,
      $host: "shop.example.com",
      $pathname: `/products/${n}`,
      $raw_user_agent: `Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/${90 + (n % 40)}.0.0.0 Safari/537.36`,
      $screen_height: 1080,
      $screen_width: 1920,
      $viewport_height: 900 + (n % 100),
      $viewport_width: 1700,
      $lib: "web",
      $lib_version: "1.449.0",
      $device_id: uuid(),
      $session_id: uuid(),
      $window_id: uuid(),
      $referrer: "https://search.example.org/",
      $referring_domain: "search.example.org",
      $ip: `81.${n % 200}.${(n >> 3) % 250}.${(n * 7) % 250}`,
      amount: n * 1.25,
      $is_identified: n % 2 === 0,
      ...(n % 10 === 0 && { $set: { plan: pick(["free", "pro"], n), visits: n } }),
    },
  };
  return [`{"uuid":"`, `",${JSON.stringify(event).slice(1, -1)},"timestamp":"`, `"}`];
});

const firstMs = Date.now() - 60_000;
let timed = 0;
let eventBytes = 0;
function bodyOf(request) {
  const events = [];
  for (let index = 0; index < perRequest; index++) {
    const [head, middle, tail] = templates[(request * perRequest * 7 + index * 13) % DISTINCT_IDS];
    const timestamp = new Date(firstMs + timed++ / 10).toISOString();
    events.push(head + uuid() + middle + timestamp + tail);
  }
  eventBytes = events[0].length;
  const batch = events.join(",");
  return perRequest === 1
    ? `{"api_key":"${PROJECT_KEY}",${batch.slice(1)}`
    : gzipSync(`{"api_key":"${PROJECT_KEY}","batch":[${batch}]}`, { level: 1 });
}

const encoding = perRequest > 1 ? "content-encoding: gzip\r\n" : "";
const requests = Array.from(
  { length: Math.ceil((MAX_PER_SECOND * seconds) / perRequest) },
  (_, request) => {
    const body = Buffer.from(bodyOf(request));
    const head = `POST ${path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n${encoding}content-length: ${body.length}\r\n\r\n`;
    return Buffer.concat([Buffer.from(head), body]);
  },
);

let next = 0;
let acked = 0;
let refused = 0;
const latencies = [];
const startedAt = performance.now();
const endsAt = startedAt + seconds * 1000;

/** One request after the other on one connection. */
function drive() {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    let sentAt = 0;
    let received = "";
    const send = () => {
      const request = performance.now() < endsAt ? requests[next++] : undefined;
      if (!request) {
        socket.destroy();
        resolve();
        return;
      }
      sentAt = performance.now();
      socket.write(request);
    };
    socket.setNoDelay(true);
    socket.setEncoding("latin1");
    socket.once("connect", send);
    socket.once("error", reject);
    socket.on("data", (text) => {
      received += text;
      const headEnd = received.indexOf("\r\n\r\n");
      if (headEnd < 0) return;
      const length = Number(/content-length: (\d+)/i.exec(received)?.[1]);
      if (received.length < headEnd + 4 + length) return;
      latencies.push(performance.now() - sentAt);
      if (received.startsWith("HTTP/1.1 200")) acked += perRequest;
      else refused += perRequest;
      received = "";
      send();
    });
  });
}

process.stdout.write("started\n");
await Promise.all(Array.from({ length: connections }, drive));
const tookSeconds = (performance.now() - startedAt) / 1000;
latencies.sort((a, b) => a - b);
console.log(
  JSON.stringify({
    acked,
    refused,
    perSecond: acked / tookSeconds,
    tookSeconds,
    eventBytes,
    bodyBytes: requests[0].length,
    p50Ms: latencies[Math.floor(latencies.length * 0.5)],
    p99Ms: latencies[Math.floor(latencies.length * 0.99)],
  }),
);
