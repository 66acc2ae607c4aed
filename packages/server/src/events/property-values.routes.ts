import type { App } from "../http/app.ts";
import { access, projectOf } from "../http/management-api.ts";
import {
  PropertyValuesAnswer,
  PropertyValuesParameters,
  propertyValuesQueryOf,
  wirePropertyValues,
} from "./property-values.schemas.ts";
import type { PropertyValues } from "./property-values.ts";

/** Values of event properties, for whoever writes a filter. */
export function propertyValuesRoutes(app: App, valuesOf: PropertyValues): void {
  app.get(
    "/api/projects/:project_id/events/values",
    {
      ...access("query:read"),
      schema: {
        tags: ["events"],
        summary: "List values that a property had in the last seven days",
        querystring: PropertyValuesParameters,
        response: { 200: PropertyValuesAnswer },
      },
    },
    async (request) =>
      wirePropertyValues(
        await valuesOf(propertyValuesQueryOf(request.query, projectOf(request).id)),
      ),
  );
}
