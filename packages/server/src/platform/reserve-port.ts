import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";

/** A free port that the system chose, held so that it chooses it for nobody else. */
export interface ReservedPort {
  readonly port: number;
  /** Gives it back, to be listened on at once. */
  release(): Promise<void>;
}

/**
 * Has the system choose a port of an address, for whoever has to know it some time before he listens.
 * Whoever connects meanwhile is turned away. Rejects as listening on the address does.
 */
export async function reservePort(host: string): Promise<ReservedPort> {
  const holder = createServer((socket) => socket.destroy()).listen(0, host);
  await once(holder, "listening");
  // Whoever gives up before need not release it.
  holder.unref();
  return {
    port: (holder.address() as AddressInfo).port,
    async release() {
      holder.close();
      await once(holder, "close");
    },
  };
}
