import { once } from "node:events";
import { connect, createServer } from "node:net";
import { expect, it } from "vitest";
import { reservePort } from "./reserve-port.ts";

const HOST = "127.0.0.1";

it("[CL-15] a reserved port is nobody else's until it is released, also when somebody connected", async () => {
  const { port, release } = await reservePort(HOST);
  expect(port).toBeGreaterThan(0);
  const client = connect(port, HOST).on("error", () => {});
  await once(client, "close");
  const early = createServer().listen(port, HOST);
  expect(await once(early, "error")).toMatchObject([{ code: "EADDRINUSE" }]);
  await release();
  const server = createServer().listen(port, HOST);
  await once(server, "listening");
  server.close();
});

it("[CL-9] an address of another machine is refused", async () => {
  await expect(reservePort("192.0.2.1")).rejects.toMatchObject({ code: "EADDRNOTAVAIL" });
});
