import { type Static, Type } from "typebox";
import type { User } from "../accounts/account-store.ts";
import { UserBasic, wireAuthor } from "../accounts/accounts.schemas.ts";
import { Refusal } from "../http/errors.ts";
import { queryText } from "../http/query-text.ts";
import { tidyTags } from "../http/tidy-tags.ts";
import { wireInstantOrNull } from "../http/wire-instant.ts";
import { Nullable } from "../http/wire-schemas.ts";
import { isUuid } from "../http/wire-uuid.ts";
import type { Definition } from "./event-definition-store.ts";

/** What a caller may write of definitions of both kinds (posthog-api 7.3, 7.4). */
export const writableFields = {
  description: Type.Optional(Nullable(Type.String({ maxLength: 400 }))),
  tags: Type.Optional(Type.Array(Type.String({ maxLength: 255 }))),
  verified: Type.Optional(
    Type.Boolean({ description: "True shows a hidden definition again, and tells who verified." }),
  ),
  hidden: Type.Optional(Nullable(Type.Boolean({ description: "True takes a verification back." }))),
};

const WrittenFields = Type.Object(writableFields);

/** What definitions of both kinds have on the wire. */
export const sharedFields = {
  id: Type.String({ format: "uuid" }),
  name: Type.String(),
  description: Nullable(Type.String()),
  tags: Type.Array(Type.String()),
  updated_at: Nullable(Type.String({ format: "date-time" })),
  updated_by: Nullable(UserBasic),
  verified: Type.Boolean(),
  verified_at: Nullable(Type.String({ format: "date-time" })),
  verified_by: Nullable(UserBasic),
  hidden: Type.Boolean(),
};

const SharedFields = Type.Object(sharedFields);

/** Query parameters of lists of both kinds. */
export const sharedParameters = {
  search: Type.Optional(
    Type.String({ description: "Words that the name has to contain, whatever their case." }),
  ),
  exclude_hidden: Type.Optional(Type.String({ description: "`true` leaves hidden ones out." })),
  verified: Type.Optional(Type.String({ description: "`true` or `false`: only those." })),
  tags: Type.Optional(
    Type.String({ description: "JSON list of tags, or tags with commas between: any of them." }),
  ),
  excluded_properties: Type.Optional(
    Type.String({ description: "JSON list of names to leave out." }),
  ),
};

/** What a validated body changes of what both kinds have. */
export function sharedChangeOf({
  description,
  tags,
  verified,
  hidden,
}: Static<typeof WrittenFields>) {
  return {
    ...(description === undefined ? {} : { description }),
    ...(tags === undefined ? {} : { tags: tidyTags(tags) }),
    ...(verified === undefined ? {} : { verified }),
    ...(hidden === undefined ? {} : { hidden: hidden ?? false }),
  };
}

/** The wire form of what both kinds have; `users` holds its authors if they still exist. */
export function wireShared(
  definition: Omit<Definition, "projectId" | "createdAt">,
  users: ReadonlyMap<number, User>,
): Static<typeof SharedFields> {
  return {
    id: definition.id,
    name: definition.name,
    description: definition.description,
    tags: [...definition.tags],
    updated_at: wireInstantOrNull(definition.updatedAt),
    updated_by: wireAuthor(definition.updatedById, users),
    verified: definition.verified,
    verified_at: wireInstantOrNull(definition.verifiedAt),
    verified_by: wireAuthor(definition.verifiedById, users),
    hidden: definition.hidden,
  };
}

/** Most words of a search. */
const MAX_WORDS = 20;

/** The words of a search parameter. */
export function wordsOf(query: unknown): readonly string[] {
  const words = (queryText(query, "search") ?? "").split(/\s+/).filter((word) => word !== "");
  return words.slice(0, MAX_WORDS);
}

/** The id of a definition in a path; whatever cannot be one is an unknown id (404). */
export function pathDefinitionIdOf(parameters: unknown): string {
  const { id } = parameters as { id?: string };
  if (id === undefined || !isUuid(id)) throw new Refusal("not_found", "Not found.");
  return id.toLowerCase();
}
