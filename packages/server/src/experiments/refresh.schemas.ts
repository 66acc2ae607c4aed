import { Type } from "typebox";
import { queryText } from "../http/query-text.ts";

/** Whether answers are to be computed anew; those of ended experiments stay as they are. */
export const RefreshQuery = Type.Object({
  refresh: Type.Optional(
    Type.String({
      description: "`true` computes anew what is not final: results after the end are.",
    }),
  ),
});

/** Whether the parameters of an address ask for an answer to be computed anew. */
export function asksToRefresh(query: unknown): boolean {
  return queryText(query, "refresh") === "true";
}

/** Whether a body's `refresh` asks for it, by any of the ways that clients have. */
export function isRefreshing(refresh: unknown): boolean {
  return refresh === true || refresh === "force_blocking" || refresh === "force_async";
}
