import type { EvaluationRequest, FlagSelection } from "@hedgerow/core/flags/evaluation-request";

/** What a flag request says, parsed; identity is `null` where `disable_flags` made it needless. */
export interface FlagRequest {
  readonly token: string;
  readonly identity: Identity | null;
  readonly geoipDisabled: boolean;
  /** Where the request says it comes from; `null` leaves it to be inferred. */
  readonly runtime: FlagSelection["runtime"];
}

/** Who is asked about, and for which flags. */
export type Identity = Pick<
  EvaluationRequest,
  "distinctId" | "deviceId" | "anonDistinctId" | "groups" | "personProperties" | "groupProperties"
> & { readonly flagKeys: readonly string[] | null; readonly contexts: readonly string[] | null };
