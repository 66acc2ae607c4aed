// Memory at rest and time to readiness of a server that has data: flags, persons and events.
import { measuredServer, PROJECT_KEY } from "./measured-server.mjs";

const server = await measuredServer();
await server.start();
try {
  for (let n = 0; n < 50; n++) {
    await server.api("POST", "/api/projects/1/feature_flags/", {
      key: `flag-${n}`,
      filters: { groups: [{ properties: [], rollout_percentage: n * 2 }] },
    });
  }
  for (let batch = 0; batch < 100; batch++) {
    const events = Array.from({ length: 100 }, (_, n) => ({
      event: "order placed",
      distinct_id: `user-${(batch * 100 + n) % 5000}`,
      properties: { total: n, note: "x".repeat(500), $set: { plan: n % 2 ? "pro" : "free" } },
    }));
    const sent = await fetch(`${server.url}/batch/`, {
      method: "POST",
      body: JSON.stringify({ api_key: PROJECT_KEY, batch: events }),
    });
    if (!sent.ok) throw new Error(await sent.text());
  }
  await server.stop();
  const starts = [];
  for (let round = 0; round < 5; round++) {
    starts.push(await server.start());
    if (round < 4) await server.stop();
  }
  await new Promise((resolve) => setTimeout(resolve, 5000));
  starts.sort((a, b) => a - b);
  console.log(JSON.stringify({ idleMb: server.residentMb(), readyMs: starts[2] }));
} finally {
  await server.close();
}
