import { type ChildProcess, spawn } from "node:child_process";

/**
 * Ends a child process together with this one, even where that is killed: a child that is at work then
 * may notice late, or never. A shell waits for the end of a pipe that only this process holds.
 */
export function endWithUs(child: ChildProcess): void {
  if (child.pid === undefined || process.platform === "win32") return;
  const script = 'read -r _; kill -9 "$1" 2>/dev/null';
  const guard = spawn("sh", ["-c", script, "sh", String(child.pid)], {
    stdio: ["pipe", "ignore", "ignore"],
    // What is sent to the group of a terminal's program would end it too early.
    detached: true,
  });
  // Without a shell children are left to themselves.
  guard.on("error", () => {});
  guard.stdin.on("error", () => {});
  child.once("exit", () => guard.kill("SIGKILL"));
  guard.unref();
  // Pipes of children are sockets, which the types do not tell.
  (guard.stdin as unknown as { unref(): void }).unref();
}
