import { v5 } from "uuid";

/** PostHog's namespace for persons: with it, an id has the same person UUID here as there. */
const PERSONS = "932979b4-65c3-4424-8467-0b66ec27bc22";

/**
 * UUID of the person first seen under a distinct id. It depends on nothing else, so that events
 * without a person and the person created later agree.
 */
export function personUuid(projectId: number, distinctId: string): string {
  return v5(`${projectId}:${distinctId}`, PERSONS);
}
