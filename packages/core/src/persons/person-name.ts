import { type JsonObject, ownValue } from "../json.ts";

/** Properties that tell what a person is called, the first that says anything wins (as PostHog does). */
const NAMING_PROPERTIES: readonly string[] = [
  "email",
  "Email",
  "$email",
  "name",
  "Name",
  "username",
  "Username",
  "UserName",
];

/** What a person may be called, most telling first. */
export function namesOf(properties: JsonObject): readonly string[] {
  return NAMING_PROPERTIES.flatMap((name) => {
    const value = ownValue(properties, name);
    return typeof value === "string" && value.trim() !== "" ? [value] : [];
  });
}

/** What a person is called: by a property, else by an id that somebody chose, else by any. */
export function personName(person: {
  readonly uuid: string;
  readonly properties: JsonObject;
  readonly distinctIds: readonly string[];
}): string {
  const [name] = namesOf(person.properties);
  return name ?? chosenIdsFirst(person.distinctIds)[0] ?? person.uuid;
}

/** Ids with those that SDKs made up last; otherwise in their order. */
export function chosenIdsFirst(distinctIds: readonly string[]): readonly string[] {
  return [
    ...distinctIds.filter((id) => !isMadeUp(id)),
    ...distinctIds.filter((id) => isMadeUp(id)),
  ];
}

/** Whether an id looks like those that SDKs give to people whom nobody has identified. */
function isMadeUp(distinctId: string): boolean {
  return /^(?:[a-z\d]+-){4}[a-z\d]+$/.test(distinctId);
}
