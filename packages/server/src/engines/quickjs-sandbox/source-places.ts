import { SourceMap } from "node:module";
import type { Message } from "esbuild";
import type { SourceFiles, SourceProblem } from "../../transformations/sandbox.ts";

/** A line of one of the given files, from 1. */
export interface Place {
  readonly file: string;
  readonly line: number;
}

/** What the bundler is told of the folder that files come from; it stands before their names. */
export const SOURCES = "source";

/**
 * Places of a bundle in terms of the given files. The library stands before the main file, in one
 * with it, and what is put behind the main file is nobody's.
 */
export class SourcePlaces {
  readonly #files: SourceFiles;
  readonly #main: string;
  readonly #library: string | null;
  readonly #libraryLines: number;

  constructor(files: SourceFiles, main: string, library: string | null) {
    this.#files = files;
    this.#main = main;
    this.#library = library;
    this.#libraryLines = library === null ? 0 : this.#linesOf(library).length;
  }

  /** Where a message of the bundler stands; nothing where it is of no file. */
  of({ location }: Message): Place | undefined {
    return location === null ? undefined : this.#placeIn(location.file, location.line);
  }

  /** A message of the bundler as a problem of the source. */
  describe(message: Message): SourceProblem {
    const { text, location } = message;
    const place = this.of(message);
    if (location === null || place === undefined) {
      return { file: "", line: 0, column: 0, message: text };
    }
    const { file, line } = place;
    // Columns are counted in bytes.
    const before = Buffer.from(location.lineText).subarray(0, location.column).toString();
    const lines = this.#linesOf(file);
    if (line <= lines.length) return { file, line, column: before.length + 1, message: text };
    // Something is open at the end of the file.
    const column = (lines.at(-1) ?? "").length + 1;
    return { file, line: lines.length, column, message: "Unexpected end of file" };
  }

  /** Where a place of the bundled code comes from; both from 0. Nothing where it is of no file. */
  inCode(
    sourceMap: string,
    line: number,
    column: number,
  ): (Place & { column: number }) | undefined {
    const entry = new SourceMap(JSON.parse(sourceMap)).findEntry(line, column);
    if (!("originalSource" in entry)) return undefined;
    const place = this.#placeIn(entry.originalSource, entry.originalLine + 1);
    return { ...place, column: entry.originalColumn + 1 };
  }

  #placeIn(source: string, line: number): Place {
    const file = source.replace(new RegExp(`^${SOURCES}:`), "");
    if (file !== this.#main || this.#library === null) return { file, line };
    return line <= this.#libraryLines
      ? { file: this.#library, line }
      : { file, line: line - this.#libraryLines };
  }

  #linesOf(file: string): string[] {
    return (Object.hasOwn(this.#files, file) ? (this.#files[file] ?? "") : "").split("\n");
  }
}
