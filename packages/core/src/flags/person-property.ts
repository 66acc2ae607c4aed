/** A person or group property as compiled filters name it. */
export interface PropertyName {
  readonly text: string;
  /** True for names every object inherits (`constructor`): only an own-key look-up is right. */
  readonly isInherited: boolean;
  /** True for what an address look-up may tell (flag-evaluation 6.3). */
  readonly isPlace: boolean;
  /** The property whose value stands in when this `$initial_…` one is missing (6.2). */
  readonly standIn: PropertyName | null;
}

/** Properties whose first value is kept under `$initial_…` (flag-evaluation 6.2). */
const TRACKED =
  "$app_build $app_name $app_namespace $app_version $browser $browser_version $device_type " +
  "$current_url $pathname $os $os_version $referring_domain $referrer $screen_height " +
  "$screen_width $viewport_height $viewport_width $raw_user_agent utm_source utm_medium " +
  "utm_campaign utm_content utm_term gclid gad_source gclsrc dclid gbraid wbraid fbclid " +
  "msclkid twclid li_fat_id mc_cid igshid ttclid rdt_cid epik qclid sccid irclid _kx";

const STAND_INS: ReadonlyMap<string, string> = new Map(
  TRACKED.split(" ").map((name) => [`$initial_${name.replace(/^\$/, "")}`, name]),
);

/** Prepares a property name for look-ups in the person map. */
export function personProperty(text: string): PropertyName {
  const standIn = STAND_INS.get(text);
  return { ...groupProperty(text), standIn: standIn === undefined ? null : groupProperty(standIn) };
}

/** Prepares a property name for look-ups in a group map, where nothing stands in. */
export function groupProperty(text: string): PropertyName {
  return { text, isInherited: text in {}, isPlace: text.startsWith("$geoip_"), standIn: null };
}
