import type { Base } from "./base.ts";
import type { CaptureParts } from "./capture-parts.ts";
import type { CohortParts } from "./cohort-parts.ts";
import type { FlagParts } from "./flag-parts.ts";
import type { Foundations } from "./foundations.ts";
import type { Ingestion } from "./ingestion.ts";

/** All that stands before there are routes, by name. */
export type Parts = Base & Foundations & FlagParts & Ingestion & CaptureParts & CohortParts;
