import type { AccountStore, User } from "./account-store.ts";

/** The users of the given ids that still exist; `null` ids are skipped and repeated ones read once. */
export async function usersById(
  accounts: Pick<AccountStore, "user">,
  ids: Iterable<number | null>,
): Promise<ReadonlyMap<number, User>> {
  const found = new Map<number, User>();
  for (const id of new Set(ids)) {
    const user = id === null ? undefined : await accounts.user(id);
    if (user) found.set(user.id, user);
  }
  return found;
}
