/**
 * An error of the host as it crosses into the sandbox (`guest/errors.ts`): its name, the code that
 * Node.js gives it, and its message.
 */
export function errorText(error: unknown): string {
  const { name, message, code } = error as { name: string; message: string; code?: unknown };
  const told = typeof code === "string" && /^[A-Z][A-Z0-9_]*$/.test(code) ? ` [${code}]` : "";
  return `!${name}${told}: ${message}`;
}
