import type {
  Transformation,
  TransformationFiles,
} from "@hedgerow/core/transformations/transformation";
import type { TransformationFields } from "./transformation-store.ts";

/** Who asks: everything is seen and changed as a member of an organization. */
export interface Asker {
  readonly organizationId: string;
  readonly userId: number;
}

/** Fields that a caller may give. */
export type TransformationChange = Partial<
  Pick<
    TransformationFields,
    | "type"
    | "name"
    | "description"
    | "icon"
    | "configSchema"
    | "tag"
    | "isGlobal"
    | "capabilities"
    | "metrics"
    | "publicJobs"
  >
>;

/** What a caller says of a new transformation. */
export interface TransformationRequest extends TransformationChange {
  readonly url?: string | null;
  /** Files of what is written here. */
  readonly source?: TransformationFiles;
}

/** A transformation as it is told. */
export interface TransformationView {
  readonly transformation: Transformation;
  readonly organizationName: string;
}
