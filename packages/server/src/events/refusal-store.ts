/** Sendings of an event that capture did not take, of one kind. */
export interface RefusedSendings {
  readonly projectId: number;
  readonly uuid: string;
  /** Why: a code of refusal, or `duplicate` or `conflict`. */
  readonly code: string;
  readonly detail: string;
  readonly times: number;
  readonly firstAt: Date;
  readonly lastAt: Date;
}

/** Keeps for a while which events capture did not take. */
export interface RefusalStore {
  /** Adds to what is there. Of projects that are gone nothing is kept. */
  add(refused: readonly RefusedSendings[]): Promise<void>;
  /** What was refused under a uuid, the latest first. */
  find(projectId: number, uuid: string): Promise<readonly RefusedSendings[]>;
  /** Forgets what is older, and of each project all but the latest `mostPerProject`. */
  prune(before: Date, mostPerProject: number): Promise<void>;
}
