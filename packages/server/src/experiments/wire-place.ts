import { isJsonObject, type JsonObject, ownValue } from "@hedgerow/core/json";
import { Refusal } from "../http/errors.ts";

/** An object on the wire, where it stands, and how dates in it are read. */
export interface Place {
  readonly object: JsonObject;
  readonly attr: string;
  readonly timeZone: string;
}

/** The object in a field, which must be there. */
export function inside(place: Place, field: string): Place {
  const object = ownValue(place.object, field);
  if (object === undefined || object === null) throw missing(place, field);
  if (!isJsonObject(object)) throw refuse(place, field, "Expected an object.");
  return { ...place, object, attr: `${place.attr}__${field}` };
}

/** One of some texts; `undefined` where the field is absent or `null`. */
export function choiceOf<Choice extends string>(
  place: Place,
  field: string,
  choices: readonly Choice[],
): Choice | undefined {
  const value = ownValue(place.object, field);
  if (value === undefined || value === null) return undefined;
  const choice = choices.find((one) => one === value);
  if (choice !== undefined) return choice;
  const said = typeof value === "string" ? `"${value}"` : "This";
  throw new Refusal(
    "invalid_choice",
    `${said} is not a valid choice. Possible is ${choices.join(", ")}.`,
    { attr: `${place.attr}__${field}` },
  );
}

/** A number within bounds, which belong to it unless it is open; `undefined` where absent or `null`. */
export function numberOf(
  place: Place,
  field: string,
  bounds: { readonly least: number; readonly most?: number; readonly isOpen?: boolean },
): number | undefined {
  const { least, most = Number.MAX_SAFE_INTEGER, isOpen = false } = bounds;
  const value = ownValue(place.object, field);
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number") throw refuse(place, field, "A valid number is required.");
  const isInside = isOpen ? value > least && value < most : value >= least && value <= most;
  if (!isInside)
    throw refuse(
      place,
      field,
      isOpen
        ? `Ensure this value is between ${least} and ${most}.`
        : `Ensure this value is from ${least} to ${most}.`,
    );
  return value;
}

export function missing({ attr }: Place, field: string): Refusal {
  return new Refusal("required", "This field is required.", { attr: `${attr}__${field}` });
}

export function refuse({ attr }: Place, field: string, detail: string): Refusal {
  return new Refusal("invalid_input", detail, { attr: `${attr}__${field}` });
}
