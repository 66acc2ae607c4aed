import type { PluginEvent, PluginMeta } from "@posthog/plugin-scaffold";

interface Visit {
  source: string;
  medium: string;
  campaign: string;
  host: string;
}

type Rule = (visit: Visit) => string | undefined;

interface Global {
  events: Set<string> | null;
  ownHosts: string[];
  rules: Rule[];
  setsOnPersons: boolean;
}

/** Sites by the kind of their traffic: the name they get, and how their hosts end or begin; names of their Android apps too. */
const SITES: Record<string, Record<string, RegExp>> = {
  Search: {
    // Its mail, documents and sign-in are no search.
    google:
      /^(?:(?:images|news|m|cse)\.)?google\.[a-z]{2,3}(?:\.[a-z]{2})?$|^com\.google\.android\.googlequicksearchbox$/,
    bing: /(?:^|\.)bing\.com$/,
    yahoo: /(?:^|\.)search\.yahoo\.(?:com|co\.jp)$/,
    duckduckgo: /(?:^|\.)duckduckgo\.com$/,
    baidu: /(?:^|\.)baidu\.com$/,
    yandex: /(?:^|\.)(?:yandex\.[a-z]{2,3}|ya\.ru)$/,
    ecosia: /(?:^|\.)ecosia\.org$/,
    brave: /^search\.brave\.com$/,
    qwant: /(?:^|\.)qwant\.com$/,
    startpage: /(?:^|\.)startpage\.com$/,
    naver: /(?:^|\.)naver\.com$/,
    kagi: /(?:^|\.)kagi\.com$/,
  },
  Social: {
    facebook: /(?:^|\.)(?:facebook\.com|fb\.com|fb\.me)$|^com\.facebook\.katana$/,
    instagram: /(?:^|\.)instagram\.com$/,
    twitter: /(?:^|\.)(?:twitter\.com|x\.com|t\.co)$|^com\.twitter\.android$/,
    linkedin: /(?:^|\.)(?:linkedin\.com|lnkd\.in)$|^com\.linkedin\.android$/,
    reddit: /(?:^|\.)(?:reddit\.com|redd\.it)$|^com\.reddit\.frontpage$/,
    pinterest: /(?:^|\.)(?:pinterest\.[a-z]{2,3}(?:\.[a-z]{2})?|pin\.it)$/,
    tiktok: /(?:^|\.)tiktok\.com$/,
    threads: /(?:^|\.)threads\.(?:net|com)$/,
    mastodon: /(?:^|\.)mastodon\.[a-z]+$/,
    bluesky: /(?:^|\.)bsky\.app$/,
    whatsapp: /(?:^|\.)(?:whatsapp\.com|wa\.me)$/,
    telegram: /(?:^|\.)(?:telegram\.org|t\.me)$|^org\.telegram\.messenger(?:\.web)?$/,
    hackernews: /^news\.ycombinator\.com$/,
    vk: /(?:^|\.)vk\.com$/,
  },
  Video: {
    youtube: /(?:^|\.)(?:youtube\.com|youtu\.be)$/,
    vimeo: /(?:^|\.)vimeo\.com$/,
    twitch: /(?:^|\.)twitch\.tv$/,
    dailymotion: /(?:^|\.)dailymotion\.com$/,
  },
  Email: {
    gmail: /^(?:mail\.google\.com|com\.google\.android\.gm)$/,
    outlook: /(?:^|\.)(?:outlook\.live\.com|outlook\.office\.com|outlook\.office365\.com)$/,
    yahoo_mail: /^mail\.yahoo\.com$/,
    proton: /^mail\.proton\.me$/,
  },
  "AI Assistant": {
    chatgpt: /(?:^|\.)(?:chatgpt\.com|chat\.openai\.com)$/,
    perplexity: /(?:^|\.)perplexity\.ai$/,
    claude: /(?:^|\.)claude\.ai$/,
    gemini: /^gemini\.google\.com$/,
    copilot: /^copilot\.microsoft\.com$/,
  },
};
/** Hosts of mail and assistants lie below those of search engines: they are looked at first. */
const KINDS = ["Email", "AI Assistant", "Video", "Social", "Search"];

const CLICK_IDS: Record<string, [source: string, channel: string]> = {
  gclid: ["google", "Paid Search"],
  gbraid: ["google", "Paid Search"],
  wbraid: ["google", "Paid Search"],
  msclkid: ["bing", "Paid Search"],
  ttclid: ["tiktok", "Paid Social"],
  twclid: ["twitter", "Paid Social"],
  li_fat_id: ["linkedin", "Paid Social"],
};
const PAID = /^(?:cpc|ppc|cpm|cpv|cpa|paid.*|.*paid|retargeting|sem|ads?)$/;
const EMAIL = /^e[-_ ]?mail$|newsletter/;

export function setupPlugin({ config, global }: PluginMeta<Global>) {
  const events = listOf(config.events);
  global.events = events.length > 0 ? new Set(events) : null;
  global.ownHosts = listOf(config.ownHosts).map(bareHost);
  const rules = typeof config.rules === "string" ? JSON.parse(config.rules || "[]") : config.rules;
  if (!Array.isArray(rules ?? [])) throw new Error("Rules have to be a list.");
  global.rules = (rules ?? []).map(readRule);
  global.setsOnPersons = config.setOnPersons === "yes";
}

export function processEvent(event: PluginEvent, { global }: PluginMeta<Global>) {
  const { properties } = event;
  if (!properties || (global.events && !global.events.has(event.event))) return event;
  const parameters = parametersOf(properties.$current_url);
  const parameter = (name: string) => text(properties[name]) || text(parameters.get(name));
  const referrer = text(properties.$referrer);
  const visit: Visit = {
    source: parameter("utm_source").toLowerCase(),
    medium: parameter("utm_medium").toLowerCase(),
    campaign: parameter("utm_campaign").toLowerCase(),
    host: referrer === "" || referrer === "$direct" ? "" : bareHost(hostOf(referrer)),
  };
  const pageHost = bareHost(text(properties.$host) || hostOf(text(properties.$current_url)));
  const clickId = Object.keys(CLICK_IDS).find((name) => parameter(name) !== "");
  const hasFacebookClick = parameter("fbclid") !== "";
  const found = classify(visit, { clickId, hasFacebookClick, pageHost, global });
  properties.$channel = found.channel;
  if (found.source) properties.$channel_source = found.source;
  if (found.medium) properties.$channel_medium = found.medium;
  if (global.setsOnPersons && found.channel !== "Internal") {
    properties.$set_once = {
      $initial_channel: found.channel,
      ...(properties.$set_once as object),
    };
  }
  return event;
}

interface Found {
  channel: string;
  source: string;
  medium: string;
}

function classify(
  visit: Visit,
  {
    clickId,
    hasFacebookClick,
    pageHost,
    global,
  }: { clickId: string | undefined; hasFacebookClick: boolean; pageHost: string; global: Global },
): Found {
  const { source, medium, campaign, host } = visit;
  const site = siteOf(host) ?? (hasFacebookClick ? (["facebook", "Social"] as const) : undefined);
  const click = clickId === undefined ? undefined : CLICK_IDS[clickId];
  const named = { source: source || site?.[0] || host || (click?.[0] ?? ""), medium };
  for (const rule of global.rules) {
    const channel = rule(visit);
    if (channel !== undefined) return { channel, ...named };
  }
  if (source !== "" || medium !== "" || campaign !== "") {
    return { channel: campaignChannel(visit, click?.[0], site?.[1]), ...named };
  }
  if (click) return { channel: click[1], source: click[0], medium: "cpc" };
  if (host === "" && !hasFacebookClick) return { channel: "Direct", source: "", medium: "" };
  const isOwn = (own: string) => host === own || host.endsWith(`.${own}`);
  if (host !== "" && (host === pageHost || global.ownHosts.some(isOwn))) {
    return { channel: "Internal", source: "", medium: "" };
  }
  if (!site) return { channel: "Referral", source: host, medium: "referral" };
  return { channel: organic(site[1]), source: site[0], medium: "organic" };
}

function campaignChannel(
  { source, medium }: Visit,
  clicked: string | undefined,
  kindOfReferrer: string | undefined,
): string {
  const kind = kindOfSource(source) ?? kindOfReferrer ?? kindOfSource(clicked ?? "");
  if (EMAIL.test(medium) || EMAIL.test(source)) return "Email";
  if (/^(?:affiliates?|partner)$/.test(medium)) return "Affiliate";
  if (/^(?:display|banner|cpm|interstitial|expandable)$/.test(medium)) return "Display";
  if (medium === "sms" || source === "sms") return "SMS";
  if (/push|notification/.test(medium)) return "Push";
  const isPaid = PAID.test(medium) || clicked !== undefined;
  if (kind === "Social" || /social/.test(medium)) return isPaid ? "Paid Social" : "Organic Social";
  if (kind === "Video" || medium === "video") return isPaid ? "Paid Video" : "Organic Video";
  if (kind === "Search") return isPaid ? "Paid Search" : "Organic Search";
  if (medium === "organic") return "Organic Search";
  if (isPaid) return "Paid Search";
  if (medium === "referral") return "Referral";
  return kind ?? "Other Campaign";
}

function organic(kind: string): string {
  return kind === "Search" || kind === "Social" || kind === "Video" ? `Organic ${kind}` : kind;
}

function siteOf(host: string): readonly [name: string, kind: string] | undefined {
  if (host === "") return undefined;
  for (const kind of KINDS) {
    for (const [name, pattern] of Object.entries(SITES[kind] ?? {})) {
      if (pattern.test(host)) return [name, kind];
    }
  }
  return undefined;
}

function kindOfSource(source: string): string | undefined {
  if (source === "") return undefined;
  const short: Record<string, string> = { fb: "facebook", ig: "instagram", yt: "youtube" };
  const name = Object.hasOwn(short, source) ? short[source] : source;
  const byName = KINDS.find((kind) => Object.hasOwn(SITES[kind] ?? {}, name ?? ""));
  return byName ?? siteOf(bareHost(source))?.[1];
}

function parametersOf(url: unknown): URLSearchParams {
  const query = /\?([^#]*)/.exec(text(url))?.[1] ?? "";
  return new URLSearchParams(query);
}

function hostOf(url: string): string {
  return /^(?:[a-z][a-z0-9+.-]*:)?\/\/(?:[^/?#@]*@)?([^/?#:]+)/i.exec(url)?.[1] ?? url;
}

function bareHost(host: string): string {
  return host
    .toLowerCase()
    .replace(/:\d+$/, "")
    .replace(/^www\./, "");
}

function readRule(rule: unknown, index: number): Rule {
  const { channel, ...conditions } = (rule ?? {}) as Record<string, unknown>;
  const entries = Object.entries(conditions);
  const isKnown = ([name]: [string, unknown]) =>
    ["source", "medium", "campaign", "host"].includes(name);
  if (typeof channel !== "string" || entries.length === 0 || !entries.every(isKnown)) {
    throw new Error(
      `Rule ${index + 1} needs "channel", and one or more of source, medium, campaign and host.`,
    );
  }
  const tests = entries.map(([name, pattern]) => [name, wildcard(String(pattern))] as const);
  return (visit) =>
    tests.every(([name, pattern]) => pattern.test(visit[name as keyof Visit]))
      ? channel
      : undefined;
}

function wildcard(pattern: string): RegExp {
  const parts = pattern.split("*").map((part) => part.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`, "i");
}

function listOf(value: unknown): string[] {
  return text(value)
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}

function text(value: unknown): string {
  return typeof value === "string" ? value.trim() : "";
}
