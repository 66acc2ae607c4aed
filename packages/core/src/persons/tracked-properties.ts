/** Properties that tell of the campaign, click or advertisement that brought a visitor. */
export const CAMPAIGN_PARAMETERS: readonly string[] = [
  "utm_source",
  "utm_medium",
  "utm_campaign",
  "utm_content",
  "utm_term",
  "gclid",
  "gad_source",
  "gclsrc",
  "dclid",
  "gbraid",
  "wbraid",
  "fbclid",
  "msclkid",
  "twclid",
  "li_fat_id",
  "mc_cid",
  "igshid",
  "ttclid",
  "rdt_cid",
  "epik",
  "qclid",
  "sccid",
  "irclid",
  "_kx",
];

/**
 * Event properties that describe the person as well (flag-evaluation 6.2): the latest value is kept
 * under the same name, the first under its {@link initialName}.
 */
export const TRACKED_PROPERTIES: readonly string[] = [
  "$app_build",
  "$app_name",
  "$app_namespace",
  "$app_version",
  "$browser",
  "$browser_version",
  "$device_type",
  "$current_url",
  "$pathname",
  "$os",
  "$os_version",
  "$referring_domain",
  "$referrer",
  "$screen_height",
  "$screen_width",
  "$viewport_height",
  "$viewport_width",
  "$raw_user_agent",
  ...CAMPAIGN_PARAMETERS,
];

/** Where the first value of a tracked property is kept. */
export function initialName(name: string): string {
  return `$initial_${name.replace(/^\$/, "")}`;
}
