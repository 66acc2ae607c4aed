import { v4 } from "uuid";
import type { AccountStore, Project, User } from "./account-store.ts";
import { generateKey, generatePassword, hashKey, maskKey, type RandomBytes } from "./keys.ts";
import { hashPassword, verifyPassword } from "./passwords.ts";

/** What the operator may decide about the first accounts; `null` is made up. */
export interface GivenAccounts {
  readonly projectKey: string | null;
  readonly personalKey: string | null;
  readonly adminEmail: string | null;
  readonly adminPassword: string | null;
}

/** The first accounts, with the secrets that are told this once and never again. */
export interface FirstBoot {
  readonly project: Project;
  readonly admin: User;
  readonly projectKey: string;
  readonly personalKey: string;
  /** `null` when the operator chose it. */
  readonly generatedPassword: string | null;
}

/** Shorter keys than this can be guessed: a warning, since a trial on one's own machine is fine. */
const GUESSABLE_KEY_LENGTH = 24;

/**
 * Creates the first organization, project, admin and keys in an empty store; answers `null` where
 * there are accounts already. What was given but does not take effect is said through `notify`.
 */
export async function bootstrap(options: {
  accounts: AccountStore;
  given: GivenAccounts;
  now: Date;
  randomBytes: RandomBytes;
  notify: (message: string) => void;
}): Promise<FirstBoot | null> {
  const { accounts, given, now, randomBytes, notify } = options;
  if (!(await accounts.isEmpty())) {
    for (const message of await ignoredSettings(accounts, given)) notify(message);
    return null;
  }
  const uuid = () => v4({ random: randomBytes(16) });
  const projectKey = given.projectKey ?? generateKey("phc_", randomBytes);
  const personalKey = given.personalKey ?? generateKey("phx_", randomBytes);
  const generatedPassword = given.adminPassword === null ? generatePassword(randomBytes) : null;
  const password = given.adminPassword ?? generatedPassword ?? "";
  if (personalKey.length < GUESSABLE_KEY_LENGTH) {
    notify("HEDGEROW_PERSONAL_KEY is short enough to be guessed: use a long random one in earnest");
  }
  const first = await accounts.createFirstAccounts(
    {
      organization: { id: uuid(), name: "My organization", slug: "my-organization" },
      project: {
        uuid: uuid(),
        name: "Default project",
        apiToken: projectKey,
        secretApiToken: generateKey("phs_", randomBytes),
        timeZone: "UTC",
      },
      user: {
        uuid: uuid(),
        distinctId: uuid(),
        email: given.adminEmail ?? "admin@hedgerow.local",
        firstName: "Admin",
        lastName: "",
        passwordHash: await hashPassword(password, {
          origin: generatedPassword === null ? "chosen" : "generated",
          randomBytes,
        }),
      },
      key: {
        id: uuid(),
        label: "First key",
        hash: hashKey(personalKey),
        maskValue: maskKey(personalKey),
        scopes: ["*"],
        scopedProjects: [],
        scopedOrganizations: [],
      },
    },
    now,
  );
  return { project: first.project, admin: first.user, projectKey, personalKey, generatedPassword };
}

/** Settings of the first boot that later ones no longer follow, each in a sentence. */
async function ignoredSettings(accounts: AccountStore, given: GivenAccounts): Promise<string[]> {
  const messages: string[] = [];
  const ignored = (name: string, why: string, instead: string) =>
    messages.push(`${name} is used on the first boot only and ${why}; ${instead}`);
  if (given.projectKey !== null && !(await accounts.projectByApiToken(given.projectKey))) {
    ignored(
      "HEDGEROW_PROJECT_KEY",
      "is the key of no project here",
      "see /api/projects for theirs",
    );
  }
  if (
    given.personalKey !== null &&
    !(await accounts.personalKeyByHash(hashKey(given.personalKey)))
  ) {
    ignored(
      "HEDGEROW_PERSONAL_KEY",
      "is no key of this installation",
      "make a new one with `hedgerow keys create`",
    );
  }
  if (given.adminEmail !== null && !(await accounts.userByEmail(given.adminEmail))) {
    ignored("HEDGEROW_ADMIN_EMAIL", "is the address of no user here", "the admin stays as created");
  }
  if (given.adminPassword !== null && !(await isAdminPassword(accounts, given.adminPassword))) {
    ignored("HEDGEROW_ADMIN_PASSWORD", "is not the admin's password", "that stays as created");
  }
  return messages;
}

async function isAdminPassword(accounts: AccountStore, password: string): Promise<boolean> {
  const admin = await accounts.firstUser();
  const hash = admin && (await accounts.passwordHashOf(admin.id));
  return hash !== undefined && (await verifyPassword(password, hash));
}
