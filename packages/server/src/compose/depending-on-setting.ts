import { type Config, SETTINGS } from "../config.ts";

/** A setting that is well written but cannot be worked with; its cause says why. */
export class SettingFailed extends Error {
  override readonly name = "SettingFailed";
}

/**
 * Does what depends on one setting. A failure becomes the cause of a {@link SettingFailed} that
 * names the flag and its value, a database's without the password.
 */
export async function dependingOn<T>(
  config: Config,
  setting: "data" | "geoIpDatabase" | "databaseUrl",
  act: () => T | Promise<T>,
): Promise<T> {
  try {
    return await act();
  } catch (cause) {
    const value = config[setting] ?? "";
    const shown = setting === "databaseUrl" ? withoutPassword(value) : value;
    const flag = SETTINGS.find(([name]) => name === setting)?.[1].flag;
    throw new SettingFailed(`--${flag} ${shown} cannot be used`, { cause });
  }
}

function withoutPassword(text: string): string {
  const url = new URL(text);
  url.password = "";
  // Parameters may hold one as well.
  url.search = "";
  return url.href;
}
