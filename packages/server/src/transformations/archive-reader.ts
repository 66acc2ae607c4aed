/** What an archive may hold at most. */
export interface ArchiveLimits {
  readonly maxEntries: number;
  /** All files together, whether they are wanted or not. */
  readonly maxUnpackedBytes: number;
}

/** A file of an archive; `path` is relative, with `/`, without `.` and `..`. */
export interface ArchiveFile {
  readonly path: string;
  readonly contents: Uint8Array;
}

export type ArchiveOutcome =
  | { readonly kind: "read"; readonly files: readonly ArchiveFile[] }
  /** It is no archive, is damaged, holds what it must not (links, paths outside), or too much. */
  | { readonly kind: "refused"; readonly reason: string };

/** Reads `.zip`, `.tar` and `.tar.gz` archives by strangers, in memory: nothing of them touches the disk. */
export interface ArchiveReader {
  /**
   * The files of an archive in its order, of those whose path `isWanted`. What is left out is
   * unpacked and counted, but not kept.
   */
  read(
    archive: Uint8Array,
    limits: ArchiveLimits,
    isWanted: (path: string) => boolean,
  ): Promise<ArchiveOutcome>;
}
