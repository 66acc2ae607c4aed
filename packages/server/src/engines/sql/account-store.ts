import { type Selectable, sql, type Transaction } from "kysely";
import type {
  AccountStore,
  Membership,
  MembershipLevel,
  Organization,
  OrganizationDraft,
  PersonalKey,
  PersonalKeyDraft,
  Project,
  ProjectDraft,
  TestAccountFilter,
  User,
  UserDraft,
} from "../../accounts/account-store.ts";
import type { Scope } from "../../accounts/scopes.ts";
import {
  decodeBoolean,
  decodeInstant,
  decodeJson,
  encodeBoolean,
  encodeInstant,
  encodeJson,
} from "./codec.ts";
import { nextRevision } from "./project-revisions.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

/** Accounts on any SQL engine. */
export function createAccountStore(database: SqlDatabase): AccountStore {
  const { writes, reads, capabilities } = database;

  /** The outcome of a broken uniqueness rule instead of an exception. */
  async function unlessDuplicate<T, Outcome>(insert: Promise<T>, outcome: Outcome) {
    try {
      return await insert;
    } catch (error) {
      if (capabilities.isUniqueViolation(error)) return outcome;
      throw error;
    }
  }

  return {
    async isEmpty() {
      const any = await reads.selectFrom("organizations").select("id").limit(1).executeTakeFirst();
      return any === undefined;
    },

    createFirstAccounts: (draft, now) =>
      writes.transaction().execute(async (transaction) => {
        const organization = await insertOrganization(transaction, draft.organization, now);
        const organizationId = organization.id;
        const project = await insertProject(transaction, { ...draft.project, organizationId }, now);
        const owner = {
          ...draft.user,
          currentOrganizationId: organizationId,
          currentProjectId: project.id,
        };
        const user = await insertUser(transaction, owner, now);
        await insertMember(transaction, { organizationId, userId: user.id, level: 15 });
        const key = await insertKey(transaction, { ...draft.key, userId: user.id }, now);
        return { organization, project, user, key };
      }),

    createOrganization: (draft, now) => insertOrganization(writes, draft, now),

    async organization(id) {
      const row = await reads
        .selectFrom("organizations")
        .selectAll()
        .where("id", "=", id)
        .executeTakeFirst();
      return row && toOrganization(row);
    },

    createProject: (draft, now) =>
      unlessDuplicate(insertProject(writes, draft, now), "duplicate-token"),

    async updateProject(id, change, now) {
      return await writes.transaction().execute(async (transaction) => {
        const row = await transaction
          .updateTable("projects")
          .set({
            updated_at: encodeInstant(now),
            ...(change.name !== undefined && { name: change.name }),
            ...(change.timeZone !== undefined && { time_zone: change.timeZone }),
            ...(change.anonymizeIps !== undefined && {
              anonymize_ips: encodeBoolean(change.anonymizeIps),
            }),
            ...(change.testAccountFilters !== undefined && {
              test_account_filters: encodeJson(change.testAccountFilters),
            }),
            ...(change.apiToken !== undefined && { api_token: change.apiToken }),
            // Both columns are set from what the row held before.
            ...(change.secretApiToken !== undefined && {
              secret_api_token: change.secretApiToken,
              secret_api_token_backup: sql.ref<string>("secret_api_token"),
            }),
            ...(change.secretApiTokenBackup === null && { secret_api_token_backup: null }),
          })
          .where("id", "=", id)
          .returningAll()
          .executeTakeFirst();
        // Flags read dates in the project's time zone.
        if (row && change.timeZone !== undefined) await nextRevision(transaction, id);
        return row && toProject(row);
      });
    },

    async deleteProject(id) {
      const done = await writes.deleteFrom("projects").where("id", "=", id).executeTakeFirst();
      return done.numDeletedRows > 0n;
    },

    async project(id) {
      const row = await reads
        .selectFrom("projects")
        .selectAll()
        .where("id", "=", id)
        .executeTakeFirst();
      return row && toProject(row);
    },

    async projectByApiToken(token) {
      const row = await reads
        .selectFrom("projects")
        .selectAll()
        .where("api_token", "=", token)
        .executeTakeFirst();
      return row && toProject(row);
    },

    async projectBySecretToken(token) {
      const row = await reads
        .selectFrom("projects")
        .selectAll()
        .where((where) =>
          where.or([
            where("secret_api_token", "=", token),
            where("secret_api_token_backup", "=", token),
          ]),
        )
        .executeTakeFirst();
      return row && toProject(row);
    },

    async projectsOf(organizationId) {
      const rows = await reads
        .selectFrom("projects")
        .selectAll()
        .where("organization_id", "=", organizationId)
        .orderBy("id")
        .execute();
      return rows.map(toProject);
    },

    createUser: (draft, now) => unlessDuplicate(insertUser(writes, draft, now), "duplicate-email"),

    async user(id) {
      const row = await reads
        .selectFrom("users")
        .selectAll()
        .where("id", "=", id)
        .executeTakeFirst();
      return row && toUser(row);
    },

    async userByEmail(email) {
      const row = await reads
        .selectFrom("users")
        .selectAll()
        .where("email", "=", email)
        .executeTakeFirst();
      return row && toUser(row);
    },

    async firstUser() {
      const row = await reads
        .selectFrom("users")
        .selectAll()
        .orderBy("id")
        .limit(1)
        .executeTakeFirst();
      return row && toUser(row);
    },

    async passwordHashOf(userId) {
      const row = await reads
        .selectFrom("users")
        .select("password_hash")
        .where("id", "=", userId)
        .executeTakeFirst();
      return row?.password_hash;
    },

    addMember: (organizationId, userId, level) =>
      insertMember(writes, { organizationId, userId, level }),

    async membershipsOf(userId) {
      const rows = await reads
        .selectFrom("memberships")
        .innerJoin("organizations", "organizations.id", "memberships.organization_id")
        .selectAll("organizations")
        .select("memberships.level")
        .where("memberships.user_id", "=", userId)
        .orderBy("organizations.created_at")
        .orderBy("organizations.id")
        .execute();
      return rows.map(
        (row): Membership => ({
          organization: toOrganization(row),
          level: row.level as MembershipLevel,
        }),
      );
    },

    async memberCount(organizationId) {
      const { count } = await reads
        .selectFrom("memberships")
        .select((select) => select.fn.countAll<number>().as("count"))
        .where("organization_id", "=", organizationId)
        .executeTakeFirstOrThrow();
      return count;
    },

    createPersonalKey: (draft, now) => insertKey(writes, draft, now),

    async personalKeyByHash(hash) {
      const row = await reads
        .selectFrom("personal_keys")
        .selectAll()
        .where("hash", "=", hash)
        .executeTakeFirst();
      return row && toPersonalKey(row);
    },

    async personalKeysOf(userId) {
      const rows = await reads
        .selectFrom("personal_keys")
        .selectAll()
        .where("user_id", "=", userId)
        .orderBy("created_at")
        .orderBy("id")
        .execute();
      return rows.map(toPersonalKey);
    },

    async personalKeys() {
      const rows = await reads
        .selectFrom("personal_keys")
        .selectAll()
        .orderBy("created_at")
        .orderBy("id")
        .execute();
      return rows.map(toPersonalKey);
    },

    async deletePersonalKey(id) {
      const done = await writes.deleteFrom("personal_keys").where("id", "=", id).executeTakeFirst();
      return done.numDeletedRows > 0n;
    },

    async recordKeyUse(id, at) {
      await writes
        .updateTable("personal_keys")
        .set({ last_used_at: encodeInstant(at) })
        .where("id", "=", id)
        .execute();
    },
  };
}

/** What inserts run on: the writing connection or a transaction of it. */
type Writer = SqlDatabase["writes"] | Transaction<Schema>;

async function insertOrganization(writer: Writer, draft: OrganizationDraft, now: Date) {
  const row = await writer
    .insertInto("organizations")
    .values({
      id: draft.id,
      name: draft.name,
      slug: draft.slug,
      created_at: encodeInstant(now),
      updated_at: encodeInstant(now),
    })
    .returningAll()
    .executeTakeFirstOrThrow();
  return toOrganization(row);
}

async function insertProject(writer: Writer, draft: ProjectDraft, now: Date): Promise<Project> {
  const row = await writer
    .insertInto("projects")
    .values({
      uuid: draft.uuid,
      organization_id: draft.organizationId,
      name: draft.name,
      api_token: draft.apiToken,
      secret_api_token: draft.secretApiToken,
      time_zone: draft.timeZone,
      anonymize_ips: encodeBoolean(false),
      created_at: encodeInstant(now),
      updated_at: encodeInstant(now),
    })
    .returningAll()
    .executeTakeFirstOrThrow();
  return toProject(row);
}

async function insertUser(writer: Writer, draft: UserDraft, now: Date): Promise<User> {
  const row = await writer
    .insertInto("users")
    .values({
      uuid: draft.uuid,
      distinct_id: draft.distinctId,
      email: draft.email,
      password_hash: draft.passwordHash,
      first_name: draft.firstName,
      last_name: draft.lastName,
      is_active: encodeBoolean(true),
      created_at: encodeInstant(now),
      current_organization_id: draft.currentOrganizationId,
      current_project_id: draft.currentProjectId,
    })
    .returningAll()
    .executeTakeFirstOrThrow();
  return toUser(row);
}

async function insertMember(
  writer: Writer,
  member: { organizationId: string; userId: number; level: MembershipLevel },
): Promise<void> {
  await writer
    .insertInto("memberships")
    .values({
      organization_id: member.organizationId,
      user_id: member.userId,
      level: member.level,
    })
    .onConflict((conflict) =>
      conflict.columns(["organization_id", "user_id"]).doUpdateSet({ level: member.level }),
    )
    .execute();
}

async function insertKey(writer: Writer, draft: PersonalKeyDraft, now: Date): Promise<PersonalKey> {
  const row = await writer
    .insertInto("personal_keys")
    .values({
      id: draft.id,
      user_id: draft.userId,
      label: draft.label,
      hash: draft.hash,
      mask_value: draft.maskValue,
      scopes: encodeJson(draft.scopes),
      scoped_projects: encodeJson(draft.scopedProjects),
      scoped_organizations: encodeJson(draft.scopedOrganizations),
      created_at: encodeInstant(now),
      last_used_at: null,
    })
    .returningAll()
    .executeTakeFirstOrThrow();
  return toPersonalKey(row);
}

function toOrganization(row: Selectable<Schema["organizations"]>): Organization {
  return {
    id: row.id,
    name: row.name,
    slug: row.slug,
    createdAt: decodeInstant(row.created_at),
    updatedAt: decodeInstant(row.updated_at),
  };
}

function toProject(row: Selectable<Schema["projects"]>): Project {
  return {
    id: row.id,
    uuid: row.uuid,
    organizationId: row.organization_id,
    name: row.name,
    apiToken: row.api_token,
    secretApiToken: row.secret_api_token,
    secretApiTokenBackup: row.secret_api_token_backup,
    timeZone: row.time_zone,
    anonymizeIps: decodeBoolean(row.anonymize_ips),
    testAccountFilters: decodeJson<readonly TestAccountFilter[]>(row.test_account_filters),
    createdAt: decodeInstant(row.created_at),
    updatedAt: decodeInstant(row.updated_at),
  };
}

function toUser(row: Selectable<Schema["users"]>): User {
  return {
    id: row.id,
    uuid: row.uuid,
    distinctId: row.distinct_id,
    email: row.email,
    firstName: row.first_name,
    lastName: row.last_name,
    isActive: decodeBoolean(row.is_active),
    createdAt: decodeInstant(row.created_at),
    currentOrganizationId: row.current_organization_id,
    currentProjectId: row.current_project_id,
  };
}

function toPersonalKey(row: Selectable<Schema["personal_keys"]>): PersonalKey {
  return {
    id: row.id,
    userId: row.user_id,
    label: row.label,
    maskValue: row.mask_value,
    scopes: decodeJson<Scope[]>(row.scopes),
    scopedProjects: decodeJson<number[]>(row.scoped_projects),
    scopedOrganizations: decodeJson<string[]>(row.scoped_organizations),
    createdAt: decodeInstant(row.created_at),
    lastUsedAt: row.last_used_at === null ? null : decodeInstant(row.last_used_at),
  };
}
