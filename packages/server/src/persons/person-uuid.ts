import { v5 } from "uuid";

/** PostHog's namespace for persons: with it, an id has the same person UUID here as there. */
const PERSONS = "932979b4-65c3-4424-8467-0b66ec27bc22";

/**
 * UUID of the person first seen under a distinct id. It depends on nothing else, so that events
 * without a person and the person created later agree.
 * @param releases how often the id lost its person by deletion or splitting: who comes after is
 *   somebody else, whom events of the one before do not belong to
 */
export function personUuid(projectId: number, distinctId: string, releases = 0): string {
  const name = `${projectId}:${distinctId}`;
  // No stored id holds a NUL: names of different ids never meet.
  return v5(releases === 0 ? name : `${name}\0${releases}`, PERSONS);
}
