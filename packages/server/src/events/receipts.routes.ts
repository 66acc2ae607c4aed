import type { App } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { access, projectOf } from "../http/management-api.ts";
import { pathUuidOf } from "./events.schemas.ts";
import { EventReceipt, wireReceipt } from "./receipts.schemas.ts";
import { findReceipt, type ReceiptDeps } from "./receipts.ts";

/** What became of each event: the same that the answer of capture told. */
export function receiptRoutes(app: App, deps: ReceiptDeps): void {
  app.get(
    "/api/projects/:project_id/event_receipts/:uuid",
    {
      ...access("query:read"),
      schema: {
        tags: ["events"],
        summary: "Tell what became of an event",
        response: { 200: EventReceipt },
      },
    },
    async (request) => {
      const uuid = pathUuidOf(request.params);
      const answer = await findReceipt(deps, projectOf(request).id, uuid);
      if (!answer) throw new Refusal("not_found", "Not found.");
      return wireReceipt(uuid, answer);
    },
  );
}
