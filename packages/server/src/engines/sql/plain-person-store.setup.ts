import { createPersonStore } from "./person-store.ts";
import type { SqlDatabase } from "./sql-database.ts";

/** A person store beside no flags, for tests, which fail by its faults. */
export function plainPersonStore(database: SqlDatabase) {
  return createPersonStore(database, {
    continuityFlagKeys: () => [],
    onGroupTypeAdded: () => {},
    reportFault: (error) => {
      throw error;
    },
  });
}
