import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { Refusal } from "../http/errors.ts";

/** A variant of an experiment's flag, as stored in the flag's filters. */
export type Variant = JsonObject & { readonly key: string; readonly rollout_percentage: number };

/** The key of the variant that the others are compared with. */
export const CONTROL = "control";

const MAX_VARIANTS = 20;

/** The variants of a flag's filters; none for a boolean flag. */
export function variantsOf(filters: JsonObject): readonly Variant[] {
  const multivariate = ownValue(filters, "multivariate");
  const variants = isJsonObject(multivariate) ? ownValue(multivariate, "variants") : undefined;
  return Array.isArray(variants) ? ((variants as Json[]).filter(isVariant) as Variant[]) : [];
}

/** The index of the group type that a flag decides for; `null` for persons. */
export function groupTypeOf(filters: JsonObject): number | null {
  const index = ownValue(filters, "aggregation_group_type_index");
  return typeof index === "number" && index >= 0 && index < 5 ? Math.floor(index) : null;
}

function isVariant(value: Json): boolean {
  return (
    isJsonObject(value) &&
    typeof ownValue(value, "key") === "string" &&
    typeof ownValue(value, "rollout_percentage") === "number"
  );
}

/** Refuses a flag that no experiment can run on (posthog-api 5.2). */
export function refuseUnfitFlag(filters: JsonObject): void {
  const variants = variantsOf(filters);
  if (variants.length < 2) {
    throw new Refusal(
      "invalid_input",
      "Feature flag is not eligible for experiments. It has fewer than two variants.",
      { attr: "feature_flag_key" },
    );
  }
  if (variants[0]?.key !== CONTROL) {
    throw new Refusal("invalid_input", "Feature flag must have control as the first variant.", {
      attr: "feature_flag_key",
    });
  }
}

/** Refuses to start an experiment on a flag that would not let it have results. */
export function refuseStartOn(filters: JsonObject): void {
  const variants = variantsOf(filters);
  if (variants.length >= 2 && variants.some(({ key }) => key === CONTROL)) return;
  throw new Refusal(
    "invalid_input",
    "The feature flag needs at least two variants, of which one is control.",
    { attr: "feature_flag_key" },
  );
}

/** Whether an experiment can run on a flag. */
export function isFit(filters: JsonObject): boolean {
  const variants = variantsOf(filters);
  return variants.length >= 2 && variants[0]?.key === CONTROL;
}

/**
 * The variants that `parameters` asks for; `undefined` where it names none. Throws a {@link Refusal} that
 * names the field (posthog-api 5.2).
 */
export function askedVariants(parameters: JsonObject | null): readonly Variant[] | undefined {
  const sent = parameters === null ? undefined : ownValue(parameters, "feature_flag_variants");
  if (sent === undefined || sent === null) return undefined;
  const refuse = (detail: string, path = ""): Refusal =>
    new Refusal("invalid_input", detail, { attr: `parameters${path}` });
  if (!Array.isArray(sent)) throw refuse("Feature flag variants must be a list");
  const list = sent as Json[];
  if (list.length === 0) return undefined;
  if (list.length > MAX_VARIANTS)
    throw refuse(`Feature flag variants must be less than ${MAX_VARIANTS + 1}`);
  const variants = list.map((variant, index): Variant => {
    const path = `__feature_flag_variants__${index}`;
    if (!isJsonObject(variant)) throw refuse("A variant must be an object", path);
    const key = ownValue(variant, "key");
    if (typeof key !== "string" || key === "")
      throw refuse("A variant needs a key", `${path}__key`);
    const { split_percent, ...rest } = variant;
    const share = ownValue(variant, "rollout_percentage") ?? split_percent;
    if (typeof share !== "number" || !(share >= 0 && share <= 100))
      throw refuse(
        "The percentage of a variant must be a number from 0 to 100",
        `${path}__rollout_percentage`,
      );
    return { ...rest, key, rollout_percentage: share };
  });
  if (variants.length < 2) throw refuse("Feature flag variants must be at least 2");
  if (!variants.some(({ key }) => key === CONTROL))
    throw refuse("Feature flag variants must contain a control variant");
  return variants;
}

/** The filters of a flag that is made for an experiment: everyone, by variants (posthog-api 5.2). */
export function filtersForExperiment(parameters: JsonObject | null): JsonObject {
  const aggregation =
    parameters === null ? undefined : ownValue(parameters, "aggregation_group_type_index");
  return {
    groups: [{ properties: [], rollout_percentage: 100 }],
    multivariate: { variants: [...(askedVariants(parameters) ?? DEFAULT_VARIANTS)] },
    aggregation_group_type_index: typeof aggregation === "number" ? aggregation : null,
    payloads: {},
  };
}

const DEFAULT_VARIANTS: readonly Variant[] = [
  { key: CONTROL, name: "Control Group", rollout_percentage: 50 },
  { key: "test", name: "Test Variant", rollout_percentage: 50 },
];

/** A flag's filters with other variants, and all else as it was. */
export function withVariants(filters: JsonObject, variants: readonly Variant[]): JsonObject {
  const multivariate = ownValue(filters, "multivariate");
  return {
    ...filters,
    multivariate: {
      ...(isJsonObject(multivariate) ? multivariate : {}),
      variants: [...variants],
    },
  };
}

/**
 * A flag's filters that give everyone one variant: the shares move to it, and a condition for everyone
 * is put before the others, which stay for whoever turns back.
 */
export function filtersShipping(filters: JsonObject, variantKey: string): JsonObject {
  const groups = ownValue(filters, "groups");
  const shipped = variantsOf(filters).map((variant) => ({
    ...variant,
    rollout_percentage: variant.key === variantKey ? 100 : 0,
  }));
  const everyone: JsonObject = {
    properties: [],
    rollout_percentage: 100,
    description: `Added when the variant ${variantKey} was shipped`,
  };
  return {
    ...withVariants(filters, shipped),
    groups: [everyone, ...(Array.isArray(groups) ? (groups as Json[]) : [])],
  };
}

/** `parameters` as answered: the variants in it are the flag's, whoever changed them. */
export function shownParameters(
  parameters: JsonObject | null,
  flagFilters: JsonObject,
): JsonObject | null {
  if (parameters === null || !Object.hasOwn(parameters, "feature_flag_variants")) return parameters;
  return { ...parameters, feature_flag_variants: [...variantsOf(flagFilters)] };
}

/** Refuses variants with other keys, which stand once an experiment is launched; their shares may change. */
export function refuseOtherVariants(filters: JsonObject, wanted: readonly Variant[]): void {
  const keys = (variants: readonly Variant[]): string =>
    variants
      .map(({ key }) => key)
      .sort()
      .join("\n");
  if (keys(wanted) !== keys(variantsOf(filters)))
    throw new Refusal("invalid_input", "Can't update feature_flag_variants on Experiment");
}
