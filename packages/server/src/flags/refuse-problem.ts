import type { DefinitionProblem } from "@hedgerow/core/flags/validate-filters";
import { isRefusalCode, Refusal } from "../http/errors.ts";

/** Refuses a definition for the first of its problems; does nothing where there is none. */
export function refuseProblem([first]: readonly DefinitionProblem[]): void {
  if (!first) return;
  const code = isRefusalCode(first.code) ? first.code : "invalid_input";
  throw new Refusal(code, first.detail, { attr: first.attr });
}
