import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { AccountStore, ProjectDraft, UserDraft } from "./account-store.ts";

/** Opens a store over a fresh, empty database. */
export type OpenAccountStore = () => Promise<{ store: AccountStore; close(): Promise<void> }>;

const now = new Date("2026-03-01T10:00:00.123Z");
const later = new Date("2026-03-02T11:30:00.000Z");

/** What every {@link AccountStore} must do. */
export function accountStoreContract(open: OpenAccountStore): void {
  let store: AccountStore;
  let close: () => Promise<void>;
  let numbered = 0;

  beforeAll(async () => {
    ({ store, close } = await open());
  });
  afterAll(() => close());

  const aProject = (organizationId: string): ProjectDraft => {
    const number = ++numbered;
    return {
      uuid: `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`,
      organizationId,
      name: `Project ${number}`,
      apiToken: `phc_${number}`,
      secretApiToken: `phs_${number}`,
      timeZone: "UTC",
    };
  };
  const aUser = (organizationId: string, projectId: number): UserDraft => {
    const number = ++numbered;
    return {
      uuid: `00000000-0000-4000-9000-${String(number).padStart(12, "0")}`,
      distinctId: `distinct-${number}`,
      email: `user-${number}@example.org`,
      firstName: "Ada",
      lastName: "",
      passwordHash: `hash ${number}`,
      currentOrganizationId: organizationId,
      currentProjectId: projectId,
    };
  };
  const anOrganization = () => {
    const number = ++numbered;
    return store.createOrganization(
      { id: `10000000-0000-4000-8000-${String(number).padStart(12, "0")}`, name: "O", slug: "o" },
      now,
    );
  };
  const created = <T>(outcome: T | string): T => {
    if (typeof outcome === "string") throw new Error(outcome);
    return outcome;
  };
  const anOwner = async () => {
    const organization = await anOrganization();
    const project = created(await store.createProject(aProject(organization.id), now));
    const user = created(await store.createUser(aUser(organization.id, project.id), now));
    return { organization, project, user };
  };
  const aKey = (userId: number) => {
    const number = ++numbered;
    return {
      id: `key-${number}`,
      userId,
      label: `Key ${number}`,
      hash: `key hash ${number}`,
      maskValue: "phx_...abcd",
      scopes: ["feature_flag:read", "cohort:write"] as const,
      scopedProjects: [7, 9],
      scopedOrganizations: ["10000000-0000-4000-8000-000000000001"],
    };
  };

  test("is empty until the first accounts are created, which come linked to each other", async () => {
    expect(await store.isEmpty()).toBe(true);
    expect(await store.firstUser()).toBeUndefined();
    const { organizationId, ...project } = aProject("unused");
    const { currentOrganizationId, currentProjectId, ...user } = aUser("unused", 0);
    const { userId, ...key } = aKey(0);
    const first = await store.createFirstAccounts(
      {
        organization: { id: "10000000-0000-4000-8000-00000000ffff", name: "Home", slug: "home" },
        project,
        user,
        key,
      },
      now,
    );
    expect(await store.isEmpty()).toBe(false);
    expect(first.project).toMatchObject({ ...project, organizationId: first.organization.id });
    expect(first.user).toMatchObject({
      email: user.email,
      isActive: true,
      currentOrganizationId: first.organization.id,
      currentProjectId: first.project.id,
    });
    expect(first.key).toMatchObject({ label: key.label, userId: first.user.id });
    expect(await store.membershipsOf(first.user.id)).toEqual([
      { organization: first.organization, level: 15 },
    ]);
    expect(await store.firstUser()).toEqual(first.user);
  });

  test("first accounts are all or nothing", async () => {
    const { project: taken } = await anOwner();
    const { organizationId, ...project } = aProject("unused");
    const { currentOrganizationId, currentProjectId, ...user } = aUser("unused", 0);
    const { userId, ...key } = aKey(0);
    const id = "10000000-0000-4000-8000-00000000eeee";
    const doomed = store.createFirstAccounts(
      {
        organization: { id, name: "Half", slug: "half" },
        project: { ...project, apiToken: taken.apiToken },
        user,
        key,
      },
      now,
    );
    await expect(doomed).rejects.toThrow();
    expect(await store.organization(id)).toBeUndefined();
  });

  test("an organization is found by its id", async () => {
    const organization = await anOrganization();
    expect(organization).toMatchObject({ name: "O", slug: "o", createdAt: now, updatedAt: now });
    expect(await store.organization(organization.id)).toEqual(organization);
    expect(await store.organization("10000000-0000-4000-8000-000000000000")).toBeUndefined();
  });

  describe("projects", () => {
    test("are found by id and by either key, and only by the whole key", async () => {
      const { project } = await anOwner();
      expect(project).toMatchObject({ anonymizeIps: false, timeZone: "UTC", createdAt: now });
      expect(await store.project(project.id)).toEqual(project);
      expect(await store.projectByApiToken(project.apiToken)).toEqual(project);
      expect(await store.projectBySecretToken(project.secretApiToken)).toEqual(project);
      expect(await store.projectByApiToken(project.secretApiToken)).toBeUndefined();
      expect(await store.projectBySecretToken(project.apiToken)).toBeUndefined();
      expect(await store.projectByApiToken(project.apiToken.toUpperCase())).toBeUndefined();
      expect(await store.projectByApiToken("phc_%")).toBeUndefined();
      expect(await store.project(999_999)).toBeUndefined();
    });

    test("a key belongs to one project only", async () => {
      const { organization, project } = await anOwner();
      const sameKey = { ...aProject(organization.id), apiToken: project.apiToken };
      expect(await store.createProject(sameKey, now)).toBe("duplicate-token");
      const sameSecret = { ...aProject(organization.id), secretApiToken: project.secretApiToken };
      expect(await store.createProject(sameSecret, now)).toBe("duplicate-token");
    });

    test("are listed per organization in order of id", async () => {
      const { organization, project } = await anOwner();
      const second = created(await store.createProject(aProject(organization.id), now));
      await anOwner();
      expect(await store.projectsOf(organization.id)).toEqual([project, second]);
    });

    test("a change touches the named fields and the time of change only", async () => {
      const { project } = await anOwner();
      const renamed = await store.updateProject(project.id, { name: "Renamed" }, later);
      expect(renamed).toEqual({ ...project, name: "Renamed", updatedAt: later });
      const rest = {
        timeZone: "Europe/Berlin",
        anonymizeIps: true,
        apiToken: "phc_rolled",
        secretApiToken: "phs_rolled",
      };
      const changed = await store.updateProject(project.id, rest, later);
      const secretApiTokenBackup = project.secretApiToken;
      expect(changed).toEqual({ ...renamed, ...rest, secretApiTokenBackup });
      expect(await store.project(project.id)).toEqual(changed);
      expect(await store.projectByApiToken(project.apiToken)).toBeUndefined();
      expect(await store.updateProject(999_999, { name: "x" }, later)).toBeUndefined();
    });

    test("the secret key before opens the project too, until it is dropped or followed by another", async () => {
      const { project } = await anOwner();
      const byKeys = () =>
        Promise.all(
          [project.secretApiToken, "phs_second", "phs_third"].map(
            async (key) => (await store.projectBySecretToken(key))?.id,
          ),
        );
      expect(project.secretApiTokenBackup).toBeNull();
      await store.updateProject(project.id, { secretApiToken: "phs_second" }, later);
      expect(await byKeys()).toEqual([project.id, project.id, undefined]);
      await store.updateProject(project.id, { secretApiToken: "phs_third" }, later);
      expect(await byKeys()).toEqual([undefined, project.id, project.id]);
      const dropped = await store.updateProject(project.id, { secretApiTokenBackup: null }, later);
      expect(dropped?.secretApiTokenBackup).toBeNull();
      expect(await byKeys()).toEqual([undefined, undefined, project.id]);
    });

    test("a deleted project is gone and its number is never given again", async () => {
      const { organization } = await anOwner();
      const doomed = created(await store.createProject(aProject(organization.id), now));
      expect(await store.deleteProject(doomed.id)).toBe(true);
      expect(await store.deleteProject(doomed.id)).toBe(false);
      expect(await store.project(doomed.id)).toBeUndefined();
      expect(await store.projectByApiToken(doomed.apiToken)).toBeUndefined();
      const next = created(await store.createProject(aProject(organization.id), now));
      expect(next.id).toBeGreaterThan(doomed.id);
    });
  });

  describe("users", () => {
    test("are found by id and by address, which is theirs alone", async () => {
      const { organization, project, user } = await anOwner();
      expect(await store.user(user.id)).toEqual(user);
      expect(await store.userByEmail(user.email)).toEqual(user);
      expect(await store.user(999_999)).toBeUndefined();
      expect(await store.userByEmail("nobody@example.org")).toBeUndefined();
      const twin = { ...aUser(organization.id, project.id), email: user.email };
      expect(await store.createUser(twin, now)).toBe("duplicate-email");
    });

    test("only the hash of a password is kept, and only it is given back", async () => {
      const { organization, project } = await anOwner();
      const draft = aUser(organization.id, project.id);
      const user = created(await store.createUser(draft, now));
      expect(await store.passwordHashOf(user.id)).toBe(draft.passwordHash);
      expect(await store.passwordHashOf(999_999)).toBeUndefined();
      expect(JSON.stringify(user)).not.toContain(draft.passwordHash);
    });

    test("a membership has one level, the last one given", async () => {
      const { organization, user } = await anOwner();
      const other = await anOrganization();
      expect(await store.membershipsOf(user.id)).toEqual([]);
      expect(await store.memberCount(organization.id)).toBe(0);
      await store.addMember(organization.id, user.id, 1);
      await store.addMember(other.id, user.id, 8);
      await store.addMember(organization.id, user.id, 15);
      expect(await store.membershipsOf(user.id)).toEqual([
        { organization, level: 15 },
        { organization: other, level: 8 },
      ]);
      expect(await store.memberCount(organization.id)).toBe(1);
    });
  });

  describe("personal keys", () => {
    test("are found by their hash, with scopes and bounds as given", async () => {
      const { user } = await anOwner();
      const { hash, ...draft } = aKey(user.id);
      const key = await store.createPersonalKey({ ...draft, hash }, now);
      expect(key).toEqual({ ...draft, createdAt: now, lastUsedAt: null });
      expect(await store.personalKeyByHash(hash)).toEqual(key);
      expect(await store.personalKeyByHash("another hash")).toBeUndefined();
    });

    test("are listed oldest first, per user and altogether", async () => {
      const { user } = await anOwner();
      const { user: stranger } = await anOwner();
      const young = await store.createPersonalKey(aKey(user.id), later);
      const old = await store.createPersonalKey(aKey(user.id), now);
      const foreign = await store.createPersonalKey(aKey(stranger.id), later);
      expect(await store.personalKeysOf(user.id)).toEqual([old, young]);
      const ids = (await store.personalKeys()).map((key) => key.id);
      expect(ids).toContain(foreign.id);
      expect(ids.indexOf(old.id)).toBeLessThan(ids.indexOf(young.id));
    });

    test("remember their last use", async () => {
      const { user } = await anOwner();
      const key = await store.createPersonalKey(aKey(user.id), now);
      await store.recordKeyUse(key.id, later);
      expect(await store.personalKeysOf(user.id)).toEqual([{ ...key, lastUsedAt: later }]);
    });

    test("a deleted key opens nothing any more", async () => {
      const { user } = await anOwner();
      const draft = aKey(user.id);
      const key = await store.createPersonalKey(draft, now);
      expect(await store.deletePersonalKey(key.id)).toBe(true);
      expect(await store.deletePersonalKey(key.id)).toBe(false);
      expect(await store.personalKeyByHash(draft.hash)).toBeUndefined();
    });
  });
}
