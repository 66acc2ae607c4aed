import { accountStoreContract } from "../../accounts/account-store.contract.ts";
import { createAccountStore } from "./account-store.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

describeEachSqlEngine("AccountStore", (open) => {
  accountStoreContract(async () => {
    const database = await open();
    return { store: createAccountStore(database), close: () => database.close() };
  });
});
