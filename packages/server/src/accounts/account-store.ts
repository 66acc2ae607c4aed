import type { Operator } from "@hedgerow/core/flags/match-property";
import type { Json } from "@hedgerow/core/json";
import type { Scope } from "./scopes.ts";

export interface Organization {
  /** UUID. */
  readonly id: string;
  readonly name: string;
  readonly slug: string;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/**
 * A condition that real users meet, by the flags' operators: on the properties of an event or of its
 * person. Whoever does not meet it is a test account.
 */
export interface TestAccountFilter {
  readonly on: "event" | "person";
  readonly key: string;
  readonly operator: Operator;
  readonly value: Json | undefined;
}

export interface Project {
  readonly id: number;
  readonly uuid: string;
  readonly organizationId: string;
  readonly name: string;
  /** Public project key, `phc_…`. */
  readonly apiToken: string;
  /** Secret project key, `phs_…`: reads flag definitions and remote configuration only. */
  readonly secretApiToken: string;
  /** The secret key before: it opens the same as long as it is kept. */
  readonly secretApiTokenBackup: string | null;
  /** IANA time zone name. */
  readonly timeZone: string;
  readonly anonymizeIps: boolean;
  /** Conditions that real users meet; experiments may leave out whoever does not. */
  readonly testAccountFilters: readonly TestAccountFilter[];
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** Wire levels: 1 member, 8 admin, 15 owner. */
export type MembershipLevel = 1 | 8 | 15;

export interface User {
  readonly id: number;
  readonly uuid: string;
  readonly distinctId: string;
  readonly email: string;
  readonly firstName: string;
  readonly lastName: string;
  readonly isActive: boolean;
  readonly createdAt: Date;
  readonly currentOrganizationId: string;
  readonly currentProjectId: number;
}

export interface Membership {
  readonly organization: Organization;
  readonly level: MembershipLevel;
}

export interface PersonalKey {
  readonly id: string;
  readonly userId: number;
  readonly label: string;
  /** First and last characters, for recognition: `phx_...wxyz`. */
  readonly maskValue: string;
  readonly scopes: readonly Scope[];
  /** Empty: every project of the user. */
  readonly scopedProjects: readonly number[];
  /** Empty: every organization of the user. */
  readonly scopedOrganizations: readonly string[];
  readonly createdAt: Date;
  readonly lastUsedAt: Date | null;
}

export type OrganizationDraft = Pick<Organization, "id" | "name" | "slug">;

export type ProjectDraft = Pick<
  Project,
  "uuid" | "organizationId" | "name" | "apiToken" | "secretApiToken" | "timeZone"
>;

export type UserDraft = Pick<
  User,
  | "uuid"
  | "distinctId"
  | "email"
  | "firstName"
  | "lastName"
  | "currentOrganizationId"
  | "currentProjectId"
> & { readonly passwordHash: string };

export type PersonalKeyDraft = Omit<PersonalKey, "createdAt" | "lastUsedAt"> & {
  readonly hash: string;
};

/** Everything a new installation begins with; what refers to each other is linked by the store. */
export interface FirstAccounts {
  readonly organization: OrganizationDraft;
  readonly project: Omit<ProjectDraft, "organizationId">;
  /** Becomes the owner of the organization. */
  readonly user: Omit<UserDraft, "currentOrganizationId" | "currentProjectId">;
  readonly key: Omit<PersonalKeyDraft, "userId">;
}

/**
 * Organizations, projects, users and keys. Secrets are stored only as hashes; a store never sees
 * the text of a personal key or a password. Every write is durable when its promise resolves.
 */
export interface AccountStore {
  /** True until the first organization exists. */
  isEmpty(): Promise<boolean>;
  /** All or nothing: an installation never begins half made. Meant for an empty store. */
  createFirstAccounts(
    draft: FirstAccounts,
    now: Date,
  ): Promise<{ organization: Organization; project: Project; user: User; key: PersonalKey }>;

  createOrganization(draft: OrganizationDraft, now: Date): Promise<Organization>;
  organization(id: string): Promise<Organization | undefined>;

  /** Outcome `duplicate-token` when another project has the key. */
  createProject(draft: ProjectDraft, now: Date): Promise<Project | "duplicate-token">;
  /** With a new secret key the one before becomes the backup, whichever was it; `null` drops that. */
  updateProject(
    id: number,
    change: Partial<
      Pick<
        Project,
        "name" | "timeZone" | "anonymizeIps" | "testAccountFilters" | "apiToken" | "secretApiToken"
      > & { readonly secretApiTokenBackup: null }
    >,
    now: Date,
  ): Promise<Project | undefined>;
  /** Removes the project row and its keys' access; data of other features is theirs to remove. */
  deleteProject(id: number): Promise<boolean>;
  project(id: number): Promise<Project | undefined>;
  projectByApiToken(token: string): Promise<Project | undefined>;
  /** By the secret key or its backup. */
  projectBySecretToken(token: string): Promise<Project | undefined>;
  /** Ordered by id. */
  projectsOf(organizationId: string): Promise<readonly Project[]>;

  createUser(draft: UserDraft, now: Date): Promise<User | "duplicate-email">;
  user(id: number): Promise<User | undefined>;
  /** Addresses are compared as stored: callers hand in lower case. */
  userByEmail(email: string): Promise<User | undefined>;
  /** The first user of the installation: who acts where nobody signed in (the command line). */
  firstUser(): Promise<User | undefined>;
  passwordHashOf(userId: number): Promise<string | undefined>;
  addMember(organizationId: string, userId: number, level: MembershipLevel): Promise<void>;
  /** Oldest organization first. */
  membershipsOf(userId: number): Promise<readonly Membership[]>;
  memberCount(organizationId: string): Promise<number>;

  createPersonalKey(draft: PersonalKeyDraft, now: Date): Promise<PersonalKey>;
  personalKeyByHash(hash: string): Promise<PersonalKey | undefined>;
  /** Oldest first. */
  personalKeysOf(userId: number): Promise<readonly PersonalKey[]>;
  /** Every key of the installation, oldest first. */
  personalKeys(): Promise<readonly PersonalKey[]>;
  deletePersonalKey(id: string): Promise<boolean>;
  recordKeyUse(id: string, at: Date): Promise<void>;
}
