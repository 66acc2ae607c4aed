import { Type } from "typebox";
import type { App } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { access, mayRead, projectOf } from "../http/management-api.ts";
import { queryText } from "../http/query-text.ts";
import { Nullable } from "../http/wire-schemas.ts";
import type { CheckConsistency } from "./consistency.ts";

const MAX_PERSONS = 10_000;

const value = Type.Union([Type.Boolean(), Type.String()]);

/** Whether SDKs that evaluate flags themselves decide as the server does, for stored persons. */
export function consistencyRoutes(
  app: App,
  { checkConsistency }: { checkConsistency: CheckConsistency },
): void {
  app.get(
    "/api/projects/:project_id/feature_flags/consistency",
    {
      ...access("feature_flag:read"),
      schema: {
        tags: ["feature_flags"],
        summary: "Compare local and remote evaluation of all flags for stored persons",
        querystring: Type.Object({
          persons: Type.Optional(
            Type.String({
              description: "For how many persons, the newest first; 200 unless given.",
            }),
          ),
        }),
        response: {
          200: Type.Object({
            flags: Type.Integer(),
            left_to_server: Type.Integer({
              description: "Flags that SDKs leave to the server: nothing is compared of them.",
            }),
            persons: Type.Integer(),
            is_partial: Type.Boolean({
              description: "True when comparing all that was asked for would have taken too long.",
            }),
            compared: Type.Integer(),
            differing: Type.Integer(),
            differences: Type.Array(
              Type.Object({
                key: Type.String(),
                feed: Type.String(),
                distinct_id: Nullable(
                  Type.String({
                    description: "`null` for keys that may not read persons (`person:read`).",
                  }),
                ),
                person_id: Nullable(Type.String({ description: "The same." })),
                local: value,
                server: value,
              }),
            ),
          }),
        },
      },
    },
    async (request) => {
      const text = queryText(request.query, "persons") || "200";
      const maxPersons = /^\d{1,5}$/.test(text) ? Number(text) : 0;
      if (maxPersons < 1 || maxPersons > MAX_PERSONS) {
        throw new Refusal("invalid_input", `Expected a number from 1 to ${MAX_PERSONS}.`, {
          attr: "persons",
        });
      }
      const { leftToServer, isPartial, differences, ...counts } = await checkConsistency(
        projectOf(request).id,
        { maxPersons },
      );
      const mayName = mayRead(request, "person:read");
      return {
        ...counts,
        left_to_server: leftToServer,
        is_partial: isPartial,
        differences: differences.map(({ distinctId, personId, ...difference }) => ({
          ...difference,
          distinct_id: mayName ? distinctId : null,
          person_id: mayName ? personId : null,
        })),
      };
    },
  );
}
