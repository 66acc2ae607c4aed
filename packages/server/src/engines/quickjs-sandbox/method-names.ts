/** Functions that a source may offer, exported or only defined; the sandbox calls no others. */
export const METHOD_NAMES = [
  "setupPlugin",
  "teardownPlugin",
  "getSettings",
  "processEvent",
  "processEventBatch",
  "onEvent",
  "exportEvents",
  "composeWebhook",
  "runEveryMinute",
  "runEveryHour",
  "runEveryDay",
] as const;
