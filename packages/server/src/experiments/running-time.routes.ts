import type { App } from "../http/app.ts";
import { access } from "../http/management-api.ts";
import {
  RunningTimeAnswer,
  RunningTimeBody,
  runningTimeQuestionOf,
  wireRunningTime,
} from "./running-time.schemas.ts";
import { planRunningTime } from "./running-time.ts";

/** How large an experiment has to be, how long it takes, and what a sample of it finds. */
export function runningTimeRoutes(app: App): void {
  app.post(
    "/api/projects/:project_id/experiments/calculate_running_time",
    {
      ...access("experiment:read"),
      schema: {
        tags: ["experiments"],
        summary: "Compute sample size, running time and the smallest effect that is found",
        body: RunningTimeBody,
        response: { 200: RunningTimeAnswer },
      },
    },
    async (request) => wireRunningTime(planRunningTime(runningTimeQuestionOf(request.body))),
  );
}
