import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { type Static, Type } from "typebox";
import type { User } from "../accounts/account-store.ts";
import { UserBasic, wireAuthor } from "../accounts/accounts.schemas.ts";
import { Refusal } from "../http/errors.ts";
import { presentFields } from "../http/present-fields.ts";
import { wireInstant } from "../http/wire-instant.ts";
import { AnyObject, Nullable } from "../http/wire-schemas.ts";
import type { Holdout, HoldoutChange, HoldoutCondition } from "./holdouts.ts";

const writableFields = {
  description: Type.Optional(Nullable(Type.String({ maxLength: 400 }))),
  filters: Type.Optional(
    Nullable(
      Type.Array(Type.Unknown(), {
        description:
          "Who is kept out: one condition with `rollout_percentage`, the share of people from 0 to 100.",
      }),
    ),
  ),
};
const name = Type.String({ minLength: 1, maxLength: 400 });

export const CreateHoldoutBody = Type.Object({ name, ...writableFields });
export const PatchHoldoutBody = Type.Object({ name: Type.Optional(name), ...writableFields });

/** A holdout as the management API answers it (posthog-api 5.14). */
export const WireHoldout = Type.Object(
  {
    id: Type.Integer(),
    name: Type.String(),
    description: Nullable(Type.String()),
    filters: Type.Array(AnyObject),
    created_by: Nullable(UserBasic),
    created_at: Type.String({ format: "date-time" }),
    updated_at: Type.String({ format: "date-time" }),
  },
  { title: "ExperimentHoldout" },
);

/** What a validated body changes; throws a {@link Refusal} for what its schema cannot tell. */
export function holdoutChangeOf(body: Static<typeof PatchHoldoutBody>): HoldoutChange {
  const { filters } = body;
  return presentFields({
    name: body.name,
    description: body.description,
    conditions: filters === undefined ? undefined : conditionsOf((filters ?? []) as Json[]),
  });
}

/** The conditions of a new holdout, which must be there. */
export function newConditionsOf({ conditions }: HoldoutChange): readonly HoldoutCondition[] {
  if (conditions) return conditions;
  throw refuse("Filters are required to create an holdout group");
}

/** More would be no holdout any more: only the first one decides. */
const MAX_CONDITIONS = 1;

function conditionsOf(sent: readonly Json[]): readonly HoldoutCondition[] {
  if (sent.length === 0) throw refuse("Filters are required to create an holdout group");
  if (sent.length > MAX_CONDITIONS) throw refuse("A holdout has one condition.");
  return sent.map((condition, index): HoldoutCondition => {
    const at = `__${index}`;
    if (!isJsonObject(condition)) throw refuse("Expected an object.", at);
    const share = ownValue(condition, "rollout_percentage") ?? null;
    if (share === null) throw refuse("Rollout percentage must be present.");
    if (typeof share !== "number")
      throw refuse("A valid number is required.", `${at}__rollout_percentage`);
    if (!(share >= 0 && share <= 100))
      throw refuse("Rollout percentage must be between 0 and 100.");
    const properties = ownValue(condition, "properties") ?? [];
    // Flags ask nothing of people before they keep them out (flag-evaluation 9).
    if (!Array.isArray(properties) || properties.length > 0)
      throw refuse("A holdout is a share of everyone: it has no properties.", `${at}__properties`);
    return { properties: [], rollout_percentage: share };
  });
}

function refuse(detail: string, path = ""): Refusal {
  return new Refusal("invalid_input", detail, { attr: `filters${path}` });
}

/** The wire form of a holdout; `usersById` holds its author where it still exists. */
export function wireHoldout(
  holdout: Holdout,
  usersById: ReadonlyMap<number, User>,
): Static<typeof WireHoldout> {
  return {
    id: holdout.id,
    name: holdout.name,
    description: holdout.description,
    filters: holdout.conditions.map((condition): JsonObject => ({ ...condition })),
    created_by: wireAuthor(holdout.createdById, usersById),
    created_at: wireInstant(holdout.createdAt),
    updated_at: wireInstant(holdout.updatedAt),
  };
}
