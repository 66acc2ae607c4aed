import { describeThrown } from "./errors.ts";
import { stringify } from "./intrinsics.ts";
import { describeError } from "./stacks.ts";

/** Objects nested deeper are not shown, whatever is asked for. */
const DEEPEST_SHOWN = 20;

/** Node's `util.inspect`, of whose options only `depth` means something here. */
export function inspect(value: unknown, options?: unknown, depth?: unknown): string {
  const isGiven = typeof options === "object" && options !== null && "depth" in options;
  // A depth that is said to be undefined has no bound either.
  const given = isGiven ? (options.depth ?? null) : depth;
  const deepest = given === null ? DEEPEST_SHOWN : Math.min(DEEPEST_SHOWN, Number(given));
  return show(value, 1, [], Number.isNaN(deepest) ? undefined : deepest);
}

/** A value as consoles show it. */
export function show(value: unknown, depth = 0, seen: unknown[] = [], deepest = 2): string {
  try {
    if (typeof value === "string") return depth === 0 ? value : quote(value);
    if (typeof value === "bigint") return `${value}n`;
    if (typeof value === "function") return `[Function: ${value.name || "anonymous"}]`;
    if (typeof value !== "object" || value === null) return String(value);
    if (value instanceof Error)
      return (depth === 0 && describeError(value)) || describeThrown(value);
    if (value instanceof Date)
      return Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
    if (value instanceof RegExp) return String(value);
    if (seen.includes(value)) return "[Circular]";
    if (seen.length > deepest) return Array.isArray(value) ? "[Array]" : "[Object]";
    const inner = [...seen, value];
    const part = (item: unknown) => show(item, depth + 1, inner, deepest);
    if (Array.isArray(value)) {
      const shown = value.slice(0, 100).map(part);
      if (value.length > 100) shown.push(`... ${value.length - 100} more items`);
      return shown.length === 0 ? "[]" : `[ ${shown.join(", ")} ]`;
    }
    if (value instanceof Map) {
      const shown = [...value].slice(0, 100).map(([key, item]) => `${part(key)} => ${part(item)}`);
      return `Map(${value.size}) { ${shown.join(", ")} }`;
    }
    if (value instanceof Set) {
      return `Set(${value.size}) { ${[...value].slice(0, 100).map(part).join(", ")} }`;
    }
    if (value instanceof Promise) return "Promise { ... }";
    const shown = Object.keys(value)
      .slice(0, 100)
      .map((key) => {
        const label = /^[A-Za-z_$][\w$]*$/.test(key) ? key : quote(key);
        return `${label}: ${part((value as Record<string, unknown>)[key])}`;
      });
    return shown.length === 0 ? "{}" : `{ ${shown.join(", ")} }`;
  } catch (error) {
    return `[${describeThrown(error)}]`;
  }
}

/** Fills the placeholders of the first text, as consoles do. */
export function format(values: unknown[]): string {
  let next = 1;
  const text = String(values[0]).replace(/%[sdifjoOc%]/g, (sign) => {
    if (sign === "%%") return "%";
    if (next >= values.length) return sign;
    const value = values[next];
    next += 1;
    if (sign === "%d") return String(Number(value));
    if (sign === "%i") return String(Number.parseInt(String(value), 10));
    if (sign === "%f") return String(Number.parseFloat(String(value)));
    if (sign === "%j") return stringify(value) ?? "undefined";
    if (sign === "%c") return "";
    return sign === "%s" ? show(value) : show(value, 1);
  });
  return [text, ...values.slice(next).map((value) => show(value))].join(" ");
}

/** A text in the quotes that Node.js would write around it. */
function quote(text: string): string {
  const inner = stringify(text).slice(1, -1).replaceAll('\\"', '"');
  if (!inner.includes("'")) return `'${inner}'`;
  if (!inner.includes('"')) return `"${inner}"`;
  return inner.includes("`") ? `'${inner.replaceAll("'", "\\'")}'` : `\`${inner}\``;
}
