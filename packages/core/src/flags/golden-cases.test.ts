import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../json.ts";
import {
  accumulateShares,
  chooseVariant,
  createSha1Bucketing,
  isHeldOut,
  isInsideRollout,
} from "./bucketing.ts";
import { compileFlags } from "./compile-flags.ts";
import { evaluateFlags } from "./evaluate-flags.ts";
import {
  definitionsOf,
  evaluationRequest,
  flagDefinition,
  type GoldenFlagCase,
  projectOf,
  requestOf,
  TRUSTING_PATTERNS,
} from "./golden-cases.setup.ts";
import { compare, compileComparison, isOperator } from "./match-property.ts";
import { createPatternBudget } from "./pattern.ts";
import { createTimeZone } from "./zoned-date.ts";

interface HashVectors {
  readonly vectors: readonly {
    readonly id: string;
    readonly prefix: string;
    readonly identifier: string;
    readonly salt: string;
    readonly hashBits: string;
  }[];
  readonly thresholdVectors: readonly {
    readonly hash: number;
    readonly rollout_percentage: number;
    readonly included: boolean;
  }[];
  readonly holdoutThresholdVectors: readonly {
    readonly hash: number;
    readonly exclusion_percentage: number;
    readonly heldOut: boolean;
  }[];
  readonly variantVectors: readonly {
    readonly hash: number;
    readonly variants: readonly { readonly key: string; readonly rollout_percentage: number }[];
    readonly cumulative: readonly number[];
    readonly selected: string | null;
  }[];
}

interface OperatorVectors {
  readonly cases: readonly {
    readonly id: string;
    readonly operator: string | null;
    readonly key: string;
    readonly filterValue?: Json;
    readonly personProperties: JsonObject;
    readonly results: { readonly server: boolean | "error" };
    readonly now?: string;
    readonly teamTimezone?: string;
    readonly propertyMatchingVersion?: number;
    readonly propertyType?: string;
    readonly serverUncertain?: string;
  }[];
}

interface AssignmentVectors {
  readonly flag: { readonly key: string; readonly active: boolean; readonly filters: JsonObject };
  readonly distinctIds: readonly string[];
  readonly expected: readonly (boolean | string)[];
}

/** Where golden cases are read from: the copy beside the code, and a newer one where present. */
const VECTOR_FOLDERS: readonly string[] = [
  fileURLToPath(new URL("../../vectors/", import.meta.url)),
  fileURLToPath(new URL("../../../../../shared/vectors/", import.meta.url)),
].filter((folder) => existsSync(`${folder}hash.json`));

/** Reads one file of golden cases. */
function readVectors<T>(folder: string, file: string): T {
  return JSON.parse(readFileSync(folder + file, "utf8")) as T;
}

/** Uncertain cases (the server's lenient date parser) where we knowingly answer otherwise. */
const UNCERTAIN_DIFFERENCES: readonly string[] = [];

function bitsOf(value: number): string {
  return Buffer.from(new Float64Array([value]).buffer)
    .reverse()
    .toString("hex");
}

describe.each(VECTOR_FOLDERS)("golden cases in %s", (folder) => {
  it("[FE-1] hashes every vector bit for bit", () => {
    const bucketing = createSha1Bucketing();
    for (const vector of readVectors<HashVectors>(folder, "hash.json").vectors) {
      const prefix = bucketing.encode(vector.prefix);
      const salt = bucketing.encode(vector.salt);
      expect([vector.id, bitsOf(bucketing.hash(prefix, vector.identifier, salt))]).toEqual([
        vector.id,
        vector.hashBits,
      ]);
    }
  });

  it("[FE-2] decides every rollout, holdout and variant threshold as given", () => {
    const vectors = readVectors<HashVectors>(folder, "hash.json");
    for (const vector of vectors.thresholdVectors) {
      expect(isInsideRollout(vector.hash, vector.rollout_percentage)).toBe(vector.included);
    }
    for (const vector of vectors.holdoutThresholdVectors) {
      expect(isHeldOut(vector.hash, vector.exclusion_percentage)).toBe(vector.heldOut);
    }
    for (const vector of vectors.variantVectors) {
      const bounds = accumulateShares(vector.variants.map((variant) => variant.rollout_percentage));
      expect([...bounds]).toEqual(vector.cumulative);
      const chosen = vector.variants[chooseVariant(vector.hash, bounds)]?.key ?? null;
      expect(chosen).toBe(vector.selected);
    }
  });

  it.each(["assignment-simple.json", "assignment-multivariate.json"])(
    "[FE-3] assigns everyone in %s as published",
    (file) => {
      const { flag, distinctIds, expected } = readVectors<AssignmentVectors>(folder, file);
      const set = compileFlags(projectOf([flagDefinition(flag)]));
      const values = distinctIds.map(
        (distinctId) => evaluateFlags(set, evaluationRequest({ distinctId })).evaluations[0]?.value,
      );
      expect(values).toEqual(expected);
    },
  );

  it("[FE-10] answers every operator case as the server does", () => {
    const differences: string[] = [];
    const { cases } = readVectors<OperatorVectors>(folder, "operators.json");
    // Matching version 2 is another project setting, which does not exist here.
    for (const golden of cases.filter((each) => each.propertyMatchingVersion !== 2)) {
      const operator = golden.operator ?? "exact";
      // An unknown operator fails its definition: see the test of malformed flags.
      if (!isOperator(operator)) {
        expect(golden.results.server).toBe("error");
        continue;
      }
      const comparison = compileComparison(operator, golden.filterValue, {
        timeZone: createTimeZone(golden.teamTimezone ?? "UTC"),
        backtracking: TRUSTING_PATTERNS,
      });
      const isOwn = Object.hasOwn(golden.personProperties, golden.key);
      const value =
        isOwn && golden.propertyType === undefined
          ? golden.personProperties[golden.key]
          : undefined;
      const outcome = compare(comparison, value, {
        nowMs: new Date(golden.now ?? "2025-06-01T12:00:00Z").getTime(),
        patternBudget: createPatternBudget(),
      });
      if (outcome === golden.results.server) continue;
      if (golden.serverUncertain !== undefined && UNCERTAIN_DIFFERENCES.includes(golden.id)) {
        continue;
      }
      differences.push(`${golden.id} ${operator}: ${outcome} for ${golden.results.server}`);
    }
    expect(differences).toEqual([]);
  });

  const flagCases = readVectors<{ cases: readonly GoldenFlagCase[] }>(
    folder,
    "flags.json",
  ).cases.filter((golden) => golden.mode === "server");

  it.each(flagCases.map((golden) => [golden.id, golden] as const))(
    "[FE-4] evaluates the flags of %s",
    (_id, golden) => {
      const set = compileFlags(definitionsOf(golden), { backtracking: TRUSTING_PATTERNS });
      const result = evaluateFlags(set, requestOf(golden));
      const answers = new Map(result.evaluations.map((each) => [each.flag.key, each]));
      for (const [key, expected] of Object.entries(golden.expected.flags)) {
        const answer = answers.get(key);
        expect([key, answer?.value]).toEqual([key, expected.value]);
        if (expected.payload !== undefined) expect(answer?.payload).toEqual(expected.payload);
        if (expected.reason?.code !== undefined) {
          expect(answer?.reason.code).toBe(expected.reason.code);
        }
        if (expected.reason?.condition_index !== undefined) {
          expect(answer?.reason.conditionIndex).toBe(expected.reason.condition_index);
        }
      }
      for (const key of golden.expected.omitted ?? []) expect(answers.has(key)).toBe(false);
      expect(result.errorsWhileComputing).toBe(golden.expected.errorsWhileComputingFlags);
    },
  );
});
