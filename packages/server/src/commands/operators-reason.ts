import { SettingFailed } from "../compose/depending-on-setting.ts";
import { DataFolderInUse } from "../engines/data-folder/data-folder.ts";

/**
 * Why something could not be done, in one line that begins with `outcome`, where that is the
 * operator's to mend; `undefined` for faults of the program.
 */
export function operatorsReason(error: unknown, outcome: string): string | undefined {
  if (error instanceof DataFolderInUse) return error.message;
  const isSetting = error instanceof SettingFailed;
  if (isSetting && error.cause instanceof DataFolderInUse) return error.cause.message;
  const reason = storageReason(isSetting ? error.cause : error);
  if (reason === undefined) return undefined;
  return `${outcome}: ${isSetting ? `${error.message}: ` : ""}${reason}`;
}

/** What a Postgres server says to a wrong user, password or database. */
const POSTGRES_REFUSAL = /^(?:28000|28P01|3D000)$/;

/** Files that are missing or not ours to write, a database that does not answer. */
function storageReason(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const code = codeOf(error);
  const ofTheWorld =
    /^(?:ENOENT|EACCES|EPERM|EROFS|ENOSPC|EEXIST|ENOTDIR|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT)$/;
  if (ofTheWorld.test(code) || POSTGRES_REFUSAL.test(code)) return error.message || code;
  // DuckDB's errors have no code, but a kind in front of their text.
  if (/^SQLITE_(?:CANTOPEN|READONLY|FULL|NOTADB|CORRUPT)|^IO Error:/.test(code || error.message)) {
    return `${error.message} (see hedgerow doctor)`;
  }
  if (error.cause === undefined) return undefined;
  // Somebody took the trouble to name the failure: its line and that of what lies beneath.
  const beneath = error.cause instanceof Error ? error.cause.message : String(error.cause);
  return storageReason(error.cause) ?? `${error.message}: ${beneath}`;
}

/** The code by which a platform or driver names an error; empty where there is none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}
