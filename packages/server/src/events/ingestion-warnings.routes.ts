import { Type } from "typebox";
import type { App } from "../http/app.ts";
import { access, projectOf } from "../http/management-api.ts";
import { ListOf, listAnswer, PageQuery, pageOf } from "../http/pagination.ts";
import { presentFields } from "../http/present-fields.ts";
import { queryText } from "../http/query-text.ts";
import { instantOf } from "./events.schemas.ts";
import type { IngestionWarningStore } from "./ingestion-warning-store.ts";
import { IngestionWarning, wireWarning } from "./ingestion-warnings.schemas.ts";
import type { IngestionWarnings } from "./ingestion-warnings.ts";

const Parameters = Type.Object({
  ...PageQuery,
  type: Type.Optional(Type.String()),
  after: Type.Optional(Type.String({ description: "Only warnings seen after this time." })),
  before: Type.Optional(Type.String({ description: "Only warnings seen before this time." })),
});

/** What is wrong with what a project's SDKs send. */
export function ingestionWarningRoutes(
  app: App,
  {
    store,
    warnings,
  }: { store: Pick<IngestionWarningStore, "list">; warnings: Pick<IngestionWarnings, "flush"> },
): void {
  app.get(
    "/api/projects/:project_id/ingestion_warnings",
    {
      ...access("query:read"),
      schema: {
        tags: ["events"],
        summary: "List ingestion warnings, the latest first",
        description: "Counted by day, kind, SDK and version.",
        querystring: Parameters,
        response: { 200: ListOf(IngestionWarning) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const text = (name: string) => queryText(request.query, name) || undefined;
      const query = presentFields({
        type: text("type"),
        after: instantOf(text("after"), "after"),
        before: instantOf(text("before"), "before"),
        ...page,
      });
      await warnings.flush();
      const { count, warnings: found } = await store.list(projectOf(request).id, query);
      return listAnswer(request, page, { count, results: found.map(wireWarning) });
    },
  );
}
