import { Type } from "typebox";
import { describe, expect, test } from "vitest";
import { bodyOfForm } from "./body-of-form.ts";
import { readManagementForm } from "./read-form.ts";
import { createJsonReader } from "./read-json-in-turn.ts";
import { AnyObject, Nullable } from "./wire-schemas.ts";

const schema = Type.Object({
  name: Type.Optional(Type.String()),
  kind: Type.Optional(Type.Enum(["a", "1"])),
  on: Type.Optional(Type.Boolean()),
  order: Type.Optional(Type.Integer()),
  share: Type.Optional(Nullable(Type.Number())),
  filters: Type.Optional(AnyObject),
  tags: Type.Optional(Type.Array(Type.String())),
  anything: Type.Optional(Type.Unknown()),
  source: Type.Optional(Type.Union([Type.String(), AnyObject])),
  note: Type.Optional(Nullable(Type.String())),
});

const reader = createJsonReader();
const read = (fields: Record<string, string>) =>
  bodyOfForm(
    new Map(Object.entries(fields).map(([name, text]) => [name, Buffer.from(text)])),
    schema,
    reader,
  );

describe("a form", () => {
  test("[AC-59] becomes what the schema of the body asks for", async () => {
    expect(
      await read({
        ...{ name: "5", kind: "1", on: "true", order: "-3", share: "0.5", filters: '{"a":[1]}' },
        ...{ tags: '["x"]', anything: "[1]", source: "export {}", note: "", unknown: "{}" },
      }),
    ).toEqual({
      ...{ name: "5", kind: "1", on: true, order: -3, share: 0.5, filters: { a: [1] } },
      ...{ tags: ["x"], anything: [1], source: "export {}", note: "", unknown: "{}" },
    });
    expect(await read({ on: "off", share: "", source: '{"a.ts":"1"}' })).toEqual({
      ...{ on: false, share: null, source: { "a.ts": "1" } },
    });
  });

  test("[AC-59] leaves what cannot be read so as the text that it is", async () => {
    const fields = { on: "perhaps", order: "1e30", filters: "{", tags: "x", anything: "{x" };
    expect(await read(fields)).toEqual(fields);
    expect(await read(JSON.parse('{"__proto__":"p","constructor":"c"}'))).toEqual(
      JSON.parse('{"__proto__":"p","constructor":"c"}'),
    );
    expect(await bodyOfForm(new Map([["a", Buffer.from("1\0")]]), undefined, reader)).toEqual({
      a: "1\ufffd",
    });
  });

  test("[AC-59] is one only if it is written as one", () => {
    const encoded = "application/x-www-form-urlencoded";
    const multipart = "multipart/form-data; boundary=b";
    const namesOf = (body: string, type: string) => {
      const fields = readManagementForm(Buffer.from(body), type);
      return typeof fields === "object" ? [...fields.keys()] : fields;
    };
    expect(namesOf("a=1&b=&index.ts=%7B&a=2", encoded)).toEqual(["a", "b", "index.ts"]);
    expect(namesOf("orders%5B1%5D=2", encoded)).toEqual(["orders[1]"]);
    for (const body of ['{"a":"b=c"}', "[1]", "text", " a=1"]) {
      expect(namesOf(body, encoded)).toBe("no form");
    }
    const part = '--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n';
    expect(namesOf(`${part}--b--\r\n`, multipart)).toEqual(["a"]);
    expect(namesOf("--b--\r\n", multipart)).toEqual([]);
    for (const body of ["garbage", part, `${part}--c--`]) {
      expect(namesOf(body, multipart)).toBeUndefined();
    }
    expect(namesOf(`${part}--b--\r\n`, "multipart/form-data")).toBeUndefined();
  });
});
