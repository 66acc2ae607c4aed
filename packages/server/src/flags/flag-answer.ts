import type { FlagEvaluation } from "@hedgerow/core/flags/flag";

/** What a flag request is answered with, before it takes a shape. */
export interface FlagAnswer {
  readonly evaluations: readonly FlagEvaluation[];
  readonly errorsWhileComputing: boolean;
  readonly requestId: string;
  readonly evaluatedAt: Date;
}
