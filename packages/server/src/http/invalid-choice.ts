/** The wire's text for a value that is none of some choices (posthog-api 0.1), and what they are. */
export function invalidChoiceText(value: string, choices: readonly string[]): string {
  return `"${value}" is not a valid choice. Possible is ${choices.join(", ")}.`;
}
