/** Whoever read the output is gone (`| head`), or the disk that it is written to is full or broken. */
const LOST = new Set<unknown>(["EPIPE", "ENOSPC", "EDQUOT", "EIO", "EROFS"]);

/** What cannot be printed any more is lost, and what is done goes on. Other failures of an output are thrown. */
export function goOnWithout(output: NodeJS.WriteStream): void {
  const isLost = (error: unknown) =>
    error instanceof Error && "code" in error && LOST.has(error.code);
  output.on("error", (error) => {
    if (!isLost(error)) throw error;
  });
  // Files are written to at once: what fails there is thrown at whoever writes.
  const write = output.write.bind(output) as (...given: unknown[]) => boolean;
  output.write = (...given: unknown[]) => {
    try {
      return write(...given);
    } catch (error) {
      if (!isLost(error)) throw error;
      return true;
    }
  };
}
