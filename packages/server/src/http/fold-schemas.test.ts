import { describe, expect, test } from "vitest";
import { foldSchemas } from "./fold-schemas.ts";

const user = { type: "object", title: "User", properties: { id: { type: "integer" } } };
const flag = {
  type: "object",
  title: "Flag",
  properties: { owner: user, key: { type: "string" } },
};

describe("folding the schemas of a description", () => {
  test("names each titled schema once and refers to it from everywhere else", () => {
    const folded = foldSchemas({
      info: { title: "An API" },
      components: { securitySchemes: { key: { type: "http" } } },
      paths: { "/flags": { items: flag }, "/users": { first: user, second: user } },
    });
    expect(folded).toEqual({
      info: { title: "An API" },
      components: {
        securitySchemes: { key: { type: "http" } },
        schemas: {
          Flag: {
            ...flag,
            properties: { owner: { $ref: "#/components/schemas/User" }, key: { type: "string" } },
          },
          User: user,
        },
      },
      paths: {
        "/flags": { items: { $ref: "#/components/schemas/Flag" } },
        "/users": {
          first: { $ref: "#/components/schemas/User" },
          second: { $ref: "#/components/schemas/User" },
        },
      },
    });
  });

  test("refuses two different schemas of one title", () => {
    const other = { ...user, properties: {} };
    expect(() => foldSchemas({ paths: [user, other] })).toThrow(/title User/);
  });

  test("leaves a property called title alone", () => {
    const properties = { title: { type: "string" }, type: { type: "string" } };
    expect(foldSchemas({ paths: { properties } }).paths).toEqual({ properties });
  });
});
