// One load run in a process of its own: URL, connections, seconds, body. Prints JSON.
import autocannon from "autocannon";

const [url, connections, seconds, body] = process.argv.slice(2);
const result = await autocannon({
  url,
  method: "POST",
  body,
  headers: { "content-type": "application/json" },
  connections: Number(connections),
  duration: Number(seconds),
});
console.log(
  JSON.stringify({
    perSecond: result.requests.average,
    p50Ms: result.latency.p50,
    p99Ms: result.latency.p99,
    errors: result.errors + result.non2xx,
  }),
);
