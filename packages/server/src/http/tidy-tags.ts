/** Tags as PostHog keeps them: trimmed, lower case, each once, none empty. */
export function tidyTags(tags: readonly string[]): string[] {
  return [...new Set(tags.map((tag) => tag.trim().toLowerCase()))].filter((tag) => tag !== "");
}
