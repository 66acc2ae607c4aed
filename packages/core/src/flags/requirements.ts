import type { EvaluationRequest } from "./evaluation-request.ts";
import type { FlagNeeds, FlagSet, SelectedFlags } from "./flag-set.ts";
import { read } from "./person-view.ts";
import { selectFlags } from "./select-flags.ts";

/** Facts a request's flags need and the request does not carry. */
export interface Requirements {
  /** True when a flag reads a `$geoip_*` property that the request leaves open. */
  readonly geo: boolean;
  /** `null` when nothing stored is needed. */
  readonly stored: StoredRequirements | null;
}

/** Stored facts to read, by kind. */
export interface StoredRequirements {
  /** The person's properties and first sight. */
  readonly person: boolean;
  readonly staticCohorts: boolean;
  readonly hashKeyOverrides: boolean;
  /** Group keys by group type name, only those whose stored properties are needed. */
  readonly groups: Readonly<Record<string, string>>;
}

const NOTHING: Requirements = { geo: false, stored: null };
const ONLY_GEO: Requirements = { geo: true, stored: null };

/**
 * What to look up before evaluating (flag-evaluation 6.7, 16.8). Properties in
 * `request.geoProperties` count as carried: asking again after an address look-up may show that
 * nothing stored is needed any more. `request.stored` is not read.
 * @param selected the flags the request selects, where the caller has them already
 */
export function requirementsOf(
  set: FlagSet,
  request: Omit<EvaluationRequest, "stored">,
  selected: SelectedFlags = selectFlags(set, request.selection),
): Requirements {
  const { needs } = selected;
  if (!needs.any) return NOTHING;
  let geo = false;
  let person = needs.createdAt;
  for (const property of needs.personProperties) {
    const sent = read(request.personProperties, property);
    const isLookedUp = read(request.geoProperties, property) !== undefined;
    // A place sent as null is still filled from the address, though never from the store.
    if (property.isPlace && (sent ?? null) === null && !isLookedUp) geo = true;
    if (sent === undefined && !isLookedUp && property.text !== "distinct_id") person = true;
  }
  const { staticCohorts, hashKeyOverride: hashKeyOverrides } = needs;
  const groups = needs.groupProperties.length === 0 ? null : groupsToRead(needs, request);
  if (!person && !staticCohorts && !hashKeyOverrides && groups === null) {
    return geo ? ONLY_GEO : NOTHING;
  }
  return { geo, stored: { person, staticCohorts, hashKeyOverrides, groups: groups ?? {} } };
}

function groupsToRead(
  needs: FlagNeeds,
  request: Omit<EvaluationRequest, "stored">,
): Record<string, string> | null {
  let wanted: Record<string, string> | null = null;
  for (const { groupName, property } of needs.groupProperties) {
    if (property.text === "$group_key" || !Object.hasOwn(request.groups, groupName)) continue;
    const key = request.groups[groupName];
    if (key === undefined || key === "") continue;
    const sent = Object.hasOwn(request.groupProperties, groupName)
      ? request.groupProperties[groupName]
      : undefined;
    if (sent !== undefined && read(sent, property) !== undefined) continue;
    // No prototype: a group type may be called `__proto__`.
    wanted ??= Object.create(null) as Record<string, string>;
    wanted[groupName] = key;
  }
  return wanted;
}

/**
 * Flag keys whose hash key is to be stored for the persons of both ids, as a request with
 * `$anon_distinct_id` asks (flag-evaluation 16.3): every active eligible flag that one of the
 * persons lacks. `known` holds the overrides of each existing person of either id; without it
 * every eligible flag counts as lacking (storing again changes nothing).
 */
export function continuityKeysToStore(
  set: FlagSet,
  request: Pick<EvaluationRequest, "anonDistinctId">,
  known?: readonly ReadonlyMap<string, string>[],
): readonly string[] {
  if (request.anonDistinctId === null || request.anonDistinctId === "") return [];
  if (known === undefined) return set.continuityKeys;
  return set.continuityKeys.filter((key) => known.some((overrides) => !overrides.has(key)));
}
