import type { TransformationFiles } from "@hedgerow/core/transformations/transformation";
import { Refusal } from "../http/errors.ts";
import { MAX_SOURCE_CHARS, MAX_SOURCE_FILES } from "./fetch-plugin.ts";
import type { Program, Sandbox, SourceProblem } from "./sandbox.ts";

const MAX_PATH_CHARS = 200;
/** Parts of PostHog's own pages: kept with a source, never run. */
const NOT_RUN = /(?:^|\/)(?:frontend|site)\.tsx?$|\.d\.[cm]?ts$/;
const CODE = /\.[cm]?[jt]sx?$/;

/** Checks names and sizes of the files of a source; throws a {@link Refusal} that names the field. */
export function readSourceFiles(files: TransformationFiles): TransformationFiles {
  const entries = Object.entries(files);
  const refuse = (detail: string) => new Refusal("invalid_input", detail, { attr: "source" });
  if (entries.length > MAX_SOURCE_FILES) {
    throw refuse(`A source has no more than ${MAX_SOURCE_FILES} files.`);
  }
  let chars = 0;
  for (const [path, text] of entries) {
    if (!isPath(path)) throw refuse(`"${path.slice(0, MAX_PATH_CHARS)}" cannot be a file name.`);
    chars += text.length;
  }
  if (chars > MAX_SOURCE_CHARS) {
    throw refuse(`The files of a source have no more than ${MAX_SOURCE_CHARS} characters.`);
  }
  return files;
}

function isPath(path: string): boolean {
  return (
    path.length <= MAX_PATH_CHARS &&
    // biome-ignore lint/suspicious/noControlCharactersInRegex: no name holds them
    !/[\\\u0000-\u001f]/.test(path) &&
    path.split("/").every((part) => part !== "" && part !== "." && part !== "..")
  );
}

/**
 * What a source is compiled to; `null` while there is no code in it. Throws a {@link Refusal} that
 * tells file, line and column of the first mistake.
 */
export async function compileSource(
  sandbox: Pick<Sandbox, "compile">,
  files: TransformationFiles,
  attr: string,
): Promise<Program | null> {
  if (!Object.keys(files).some((path) => CODE.test(path) && !NOT_RUN.test(path))) return null;
  const outcome = await sandbox.compile(files);
  if (outcome.kind === "compiled") return outcome.program;
  throw new Refusal("invalid_input", describeProblems(outcome.problems), { attr });
}

/** The first mistake, and how many follow. */
function describeProblems(problems: readonly SourceProblem[]): string {
  const [first, ...more] = problems;
  if (!first) return "The source cannot be compiled.";
  const place = first.line === 0 ? first.file : `${first.file}:${first.line}:${first.column}`;
  const rest = more.length === 0 ? "" : ` (and ${more.length} more)`;
  return `${place === "" ? "" : `${place}: `}${first.message}${rest}`;
}
