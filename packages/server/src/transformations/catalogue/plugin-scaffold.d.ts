/** What plugins are given, as far as those of the catalogue use it; the runtime brings it along. */
declare module "@posthog/plugin-scaffold" {
  export interface PluginEvent {
    uuid: string;
    event: string;
    distinct_id: string;
    team_id: number;
    ip: string | null;
    timestamp?: string;
    now: string;
    properties?: Record<string, unknown>;
    $set?: Record<string, unknown>;
    $set_once?: Record<string, unknown>;
  }

  interface Place {
    city?: { names?: { en?: string } };
    country?: { names?: { en?: string }; isoCode?: string };
    continent?: { names?: { en?: string }; code?: string };
    postal?: { code?: string };
    location?: { latitude?: number; longitude?: number; timeZone?: string };
    subdivisions?: { names?: { en?: string }; isoCode?: string }[];
  }

  export interface PluginMeta<Global = Record<string, unknown>> {
    config: Record<string, unknown>;
    global: Global;
    cache: {
      get(key: string, fallback: unknown): Promise<unknown>;
      set(key: string, value: unknown, ttlSeconds?: number): Promise<void>;
    };
    geoip: { locate(address: string): Promise<Place | null> };
  }
}
