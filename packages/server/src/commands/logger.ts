import { type Logger, pino } from "pino";

/** JSON lines for machines; one readable line per message on a terminal. */
export function createLogger(level: string, out: NodeJS.WriteStream = process.stdout): Logger {
  const options = { level, base: null, redact: ["req.headers.authorization"] };
  if (!out.isTTY) return pino(options, out);
  return pino(options, { write: (line) => out.write(readable(line)) });
}

const LEVELS: Readonly<Record<number, string>> = {
  10: "trace",
  20: "debug",
  30: "info",
  40: "warn",
  50: "error",
  60: "fatal",
};

/** A log line of pino for the eyes: time, level, message, then what else was said. */
export function readable(line: string): string {
  const { level, time, msg, err, ...rest } = JSON.parse(line);
  const details = Object.entries(rest).map(([name, value]) => ` ${name}=${JSON.stringify(value)}`);
  const stack = err?.stack ? `\n${err.stack}` : "";
  const clock = new Date(time).toTimeString().slice(0, 8);
  return `${clock} ${(LEVELS[level] ?? String(level)).padEnd(5)} ${msg ?? ""}${details.join("")}${stack}\n`;
}
