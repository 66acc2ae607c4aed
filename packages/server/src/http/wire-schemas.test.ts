import fastJsonStringify from "fast-json-stringify";
import { Type } from "typebox";
import { expect, it } from "vitest";
import { validatorCompiler } from "./validate-body.ts";
import { AnyObject, MapOf } from "./wire-schemas.ts";
import { serializerCompiler } from "./write-answer.ts";

const NAMES = ["a", "a\nb", "c\rd", "e\u2028f", "g\th", "", "__proto__", "^.*$"];
const fields = Object.fromEntries(NAMES.map((name, index) => [name, index]));

it("an object of any fields is answered with all of them, whatever their names", () => {
  const schema = Type.Object({ properties: AnyObject, counts: MapOf(Type.Number()) });
  const write = serializerCompiler({ schema, method: "GET", url: "/" });
  const answer = { properties: fields, counts: fields };
  expect(JSON.parse(write(answer))).toEqual(answer);
  // What is avoided: names with line breaks are left out.
  const byPattern = fastJsonStringify({ type: "object", patternProperties: { "^.*$": {} } });
  expect(JSON.parse(byPattern(fields))).not.toEqual(fields);
});

it("fields of one kind are checked whatever their names", () => {
  const schema = Type.Object({ orders: MapOf(Type.Integer()) });
  const validate = validatorCompiler({ schema, method: "POST", url: "/", httpPart: "body" });
  expect(validate({ orders: fields })).toEqual({ value: { orders: fields } });
  expect(validate({ orders: { "1\n2": "first" } })).toHaveProperty("error");
});
