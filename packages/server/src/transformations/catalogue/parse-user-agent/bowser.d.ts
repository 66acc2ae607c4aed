interface Named {
  name?: string;
  version?: string;
}

interface Parsed {
  browser: Named;
  os: Named & { versionName?: string };
  platform: { type?: string; vendor?: string; model?: string };
  engine: Named;
}

declare const bowser: { parse(userAgent: string): Parsed };
export default bowser;
