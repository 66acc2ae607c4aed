import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Refusal } from "../http/errors.ts";
import { createPayloadSeal, REDACTED_PAYLOAD } from "./encrypted-payloads.ts";
import { openFlagsApi } from "./flags-api.setup.ts";

describe("sealing payloads", () => {
  test("what is sealed opens to what it was, and never looks like it", () => {
    const seal = createPayloadSeal(randomBytes(32), randomBytes);
    fc.assert(
      fc.property(fc.jsonValue(), fc.integer({ min: 1 }), (payload, projectId) => {
        const json = JSON.parse(JSON.stringify(payload));
        const sealed = seal.seal(projectId, json);
        expect(seal.open(projectId, sealed)).toEqual(json);
        expect(seal.seal(projectId, json)).not.toBe(sealed);
      }),
    );
    expect(seal.seal(1, "a secret")).not.toContain("secret");
  });

  test("nothing opens with another key, for another project, or changed", () => {
    const seal = createPayloadSeal(randomBytes(32), randomBytes);
    const sealed = seal.seal(1, "a secret");
    const bytes = Buffer.from(sealed.slice(3), "base64");
    bytes.writeUInt8(bytes.readUInt8(30) ^ 1, 30);
    const changed = `v1.${bytes.toString("base64")}`;
    const other = createPayloadSeal(randomBytes(32), randomBytes);
    for (const open of [
      () => other.open(1, sealed),
      () => seal.open(2, sealed),
      () => seal.open(1, changed),
      () => seal.open(1, "v1."),
    ]) {
      expect(open).toThrow(Refusal);
    }
  });
});

describe("flags with encrypted payloads", () => {
  let api: Awaited<ReturnType<typeof openFlagsApi>>;
  let path: string;
  beforeAll(async () => {
    api = await openFlagsApi();
    path = `/api/projects/${await api.newProject()}/feature_flags`;
  });
  afterAll(() => api.close());

  const secret = { groups: [], payloads: { true: '"a secret"' } };
  const redacted = { groups: [], payloads: { true: REDACTED_PAYLOAD } };
  const create = (key: string, body: object = {}) =>
    api.send("POST", path, {
      key,
      is_remote_configuration: true,
      has_encrypted_payloads: true,
      filters: secret,
      ...body,
    });
  const stored = async (id: number) =>
    await api.database.reads
      .selectFrom("feature_flags")
      .select(["filters", "sealed_payloads"])
      .where("id", "=", id)
      .executeTakeFirstOrThrow();

  test("[FM-30] show a redaction in every answer, in their history and at rest", async () => {
    const { status, body } = await create("sealed");
    expect(status).toBe(201);
    expect(body).toMatchObject({ has_encrypted_payloads: true, filters: redacted });
    expect((await api.send("GET", `${path}/${body.id}`)).body.filters).toEqual(redacted);
    const { results } = (await api.send("GET", `${path}?search=sealed`)).body;
    expect(results[0].filters).toEqual(redacted);
    await api.send("PATCH", `${path}/${body.id}`, {
      filters: { groups: [], payloads: { true: '"another secret"' } },
    });
    const activity = await api.send("GET", `${path}/${body.id}/activity`);
    expect(JSON.stringify(activity.body)).not.toContain("secret");
    expect(JSON.stringify(await stored(body.id))).not.toContain("secret");
  });

  test("[FM-30] keep a payload that is sent back redacted, also beside others' edits", async () => {
    const { body } = await create("kept");
    const before = await stored(body.id);
    const answer = await api.send("PATCH", `${path}/${body.id}`, {
      version: 1,
      original_flag: body,
      filters: { ...redacted, groups: [{ properties: [], rollout_percentage: 10 }] },
    });
    expect(answer.status).toBe(200);
    expect((await stored(body.id)).sealed_payloads).toBe(before.sealed_payloads);
    const renamed = await api.send("PATCH", `${path}/${body.id}`, { name: "b" });
    expect(renamed.body.filters.payloads).toEqual(redacted.payloads);
    expect((await stored(body.id)).sealed_payloads).toBe(before.sealed_payloads);
  });

  test("[FM-30] are decrypted when encryption is switched off, and encrypted when it is switched on", async () => {
    const { body } = await create("switched");
    const off = await api.send("PATCH", `${path}/${body.id}`, { has_encrypted_payloads: false });
    expect(off.body).toMatchObject({ has_encrypted_payloads: false, filters: secret });
    const on = await api.send("PATCH", `${path}/${body.id}`, { has_encrypted_payloads: true });
    expect(on.body).toMatchObject({ has_encrypted_payloads: true, filters: redacted });
  });

  test("[FM-30] are for remote configuration only", async () => {
    const refused = {
      status: 400,
      body: { code: "invalid_input", attr: "has_encrypted_payloads" },
    };
    expect(await create("public", { is_remote_configuration: false })).toMatchObject(refused);
    const { body } = await create("turned");
    expect(
      await api.send("PATCH", `${path}/${body.id}`, { is_remote_configuration: false }),
    ).toMatchObject(refused);
  });

  test("[FM-30] with payloads that are no JSON are refused as all others are", async () => {
    const answer = await create("bad", { filters: { groups: [], payloads: { true: "{bad" } } });
    expect(answer).toMatchObject({ status: 400, body: { attr: "filters" } });
  });
});
