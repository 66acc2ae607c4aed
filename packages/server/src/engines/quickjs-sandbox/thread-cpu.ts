import { openSync, readlinkSync, readSync } from "node:fs";
import process from "node:process";

/** CPU time that a thread has had so far, in milliseconds; grows in steps of a few milliseconds. */
export type ThreadCpu = () => number;

/**
 * CPU time of the thread that calls this; `null` where the platform tells none. Node.js has a call
 * for it from 23.9 on; before, Linux tells it in files (`schedstat`, which opened here stays that of
 * this thread).
 */
export function openOwnCpu(): ThreadCpu | null {
  const { threadCpuUsage } = process as unknown as {
    threadCpuUsage?: () => { readonly user: number; readonly system: number };
  };
  if (threadCpuUsage !== undefined) {
    return () => {
      const { user, system } = threadCpuUsage();
      return (user + system) / 1000;
    };
  }
  return openFile("/proc/thread-self/schedstat");
}

/** CPU time of another thread of this process by the number the kernel gave it. */
export function openCpuOf(threadNumber: number): ThreadCpu | null {
  return threadNumber === 0 ? null : openFile(`/proc/self/task/${threadNumber}/schedstat`);
}

/** The number the kernel gave to the thread that calls this; 0 where it tells none. */
export function ownThreadNumber(): number {
  try {
    return Number(/\d+$/.exec(readlinkSync("/proc/thread-self"))?.[0] ?? 0);
  } catch {
    return 0;
  }
}

function openFile(path: string): ThreadCpu | null {
  try {
    const file = openSync(path, "r");
    const bytes = Buffer.alloc(128);
    const read = () =>
      Number.parseInt(bytes.toString("latin1", 0, readSync(file, bytes, 0, 128, 0)), 10);
    // Kernels that do not count tell zeros.
    return read() > 0 ? () => read() / 1e6 : null;
  } catch {
    return null;
  }
}
