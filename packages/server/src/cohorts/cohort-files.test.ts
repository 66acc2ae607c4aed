import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createMembershipStore } from "../engines/sql/membership-store.ts";
import { openFlagsApi } from "../flags/flags-api.setup.ts";

let api: Awaited<ReturnType<typeof openFlagsApi>>;
let projectId: number;
let cohorts: string;

beforeAll(async () => {
  api = await openFlagsApi();
});
afterAll(() => api.close());
beforeEach(async () => {
  projectId = await api.newProject();
  cohorts = `/api/projects/${projectId}/cohorts`;
});

const BOUNDARY = "xxBOUNDARYxx";
const form = (fields: Readonly<Record<string, string>>) => {
  const parts = Object.entries(fields).map(([name, value]) => {
    const file = name === "csv" ? '; filename="members.csv"\r\nContent-Type: text/csv' : "";
    return `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"${file}\r\n\r\n${value}\r\n`;
  });
  return `${parts.join("")}--${BOUNDARY}--\r\n`;
};
const sendForm = (method: "POST" | "PATCH", url: string, fields: Record<string, string>) =>
  api.send(method, url, form(fields), {
    "content-type": `multipart/form-data; boundary=${BOUNDARY}`,
    // Who is known from the headers: their files are read while they arrive.
    authorization: "Bearer phx_someone",
  });
const RULE = {
  properties: {
    type: "AND",
    values: [{ key: "plan", type: "person", operator: "regex", value: "(a|b)x{20}y{20}" }],
  },
};
const uuidsOf = async (id: number) =>
  (await api.send("GET", `${cohorts}/${id}/persons`)).body.results.map(
    (person: { uuid: string }) => person.uuid,
  );

/** Persons `p0`, `p1`, …, written at once. */
async function manyPersons(count: number) {
  const uuids = Array.from({ length: count }, () => randomUUID());
  for (let start = 0; start < count; start += 2000) {
    const rows = await api.database.writes
      .insertInto("persons")
      .values(
        uuids.slice(start, start + 2000).map((uuid) => ({
          project_id: projectId,
          uuid,
          properties: "{}",
          property_times: "{}",
          created_at: 0,
          is_identified: 0,
        })),
      )
      .returning("id")
      .execute();
    await api.database.writes
      .insertInto("person_distinct_ids")
      .values(
        rows.map(({ id }, at) => ({
          project_id: projectId,
          distinct_id: `p${start + at}`,
          person_id: id,
        })),
      )
      .execute();
  }
  return uuids;
}

describe("members from files", () => {
  test("[CO-25] a form makes a static cohort of the distinct ids in its file, with or without a title", async () => {
    const ann = await api.newPerson(projectId, ["ann", "ann@work"]);
    const bob = await api.newPerson(projectId, ['bob, the "builder"']);
    for (const csv of [
      'ann\r\n"bob, the ""builder"""\r\nstranger\r\n',
      'plan,distinct_id\nfree,ann\nfree,ann@work\npro,"bob, the ""builder"""\npro,stranger',
    ]) {
      const { status, body } = await sendForm("POST", cohorts, {
        name: "From a file",
        is_static: "true",
        csv,
      });
      expect(status).toBe(201);
      expect(body).toMatchObject({
        name: "From a file",
        is_static: true,
        count: 2,
        is_calculating: false,
        last_calculation: expect.any(String),
        unknown_person_ids: [],
        unknown_distinct_ids: ["stranger"],
        unknown_count: 1,
      });
      expect(await uuidsOf(body.id)).toEqual([ann.uuid, bob.uuid]);
    }
  });

  test("[CO-25] a file adds to a cohort that is there, by uuid as well, and twice is once", async () => {
    const ann = await api.newPerson(projectId, ["ann"]);
    const { body: cohort } = await api.send("POST", cohorts, { name: "Chosen", is_static: true });
    const csv = `person_id\n${ann.uuid.toUpperCase()}\nno-uuid\n${randomUUID()}\n`;
    for (let round = 0; round < 2; round++) {
      const { status, body } = await sendForm("PATCH", `${cohorts}/${cohort.id}`, { csv });
      expect(status).toBe(200);
      expect(body).toMatchObject({ name: "Chosen", count: 1, unknown_count: 2 });
      expect(body.unknown_person_ids.length).toBe(2);
    }
    expect(await uuidsOf(cohort.id)).toEqual([ann.uuid]);
  });

  test("[CO-25] the text of a file may come in JSON, and in a form whose sender is not known yet", async () => {
    await api.newPerson(projectId, ["ann"]);
    const headers = { "content-type": `multipart/form-data; boundary=${BOUNDARY}` };
    const sent = form({ name: "Chosen", is_static: "true", csv: "ann\nbob" });
    expect((await api.send("POST", cohorts, sent, headers)).body).toMatchObject({
      count: 1,
      unknown_distinct_ids: ["bob"],
    });
    const body = { name: "Chosen", is_static: true, csv: "ann\nbob" };
    expect((await api.send("POST", cohorts, body)).body).toMatchObject({
      count: 1,
      unknown_distinct_ids: ["bob"],
    });
  });

  test.each<[string, Record<string, string>, string, string | null]>([
    ["a file without names", { is_static: "true", csv: "distinct_id\n\n" }, "invalid_input", "csv"],
    [
      "a file of several columns without one that holds names",
      { is_static: "true", csv: "email,name\nann@x.org,Ann" },
      "invalid_input",
      "csv",
    ],
    [
      "a file of rows without end",
      { is_static: "true", csv: `distinct_id\n${"a,".repeat(101)}` },
      "invalid_input",
      "csv",
    ],
    [
      "a file whose last quote is never closed",
      { is_static: "true", csv: `${"ann\n".repeat(5000)}"bob` },
      "invalid_input",
      "csv",
    ],
    [
      "a file in UTF-16",
      { is_static: "true", csv: Buffer.from("distinct_id\nann\n", "utf16le").toString() },
      "invalid_input",
      "csv",
    ],
    ["a file for a dynamic cohort", { csv: "ann" }, "invalid_input", "is_static"],
    ["filters that are no JSON", { filters: "{" }, "invalid_input", "filters"],
    ["a long name", { name: "n".repeat(401) }, "max_length", "name"],
  ])("[CO-25] %s is refused", async (_title, fields, code, attr) => {
    const { status, body } = await sendForm("POST", cohorts, fields);
    expect(status).toBe(400);
    expect(body).toMatchObject({ type: "validation_error", code, attr });
    expect((await api.send("GET", cohorts)).body.count).toBe(0);
  });

  test("[CO-25] a single column holds names whatever it is called, and a file that is refused changes nothing", async () => {
    const ann = await api.newPerson(projectId, ["ann"]);
    for (const csv of ["ann\n", "email\nann\n", "ann,\n", '"distinct_id"\nann']) {
      const fields = { name: "Chosen", is_static: "true", csv };
      const { status, body } = await sendForm("POST", cohorts, fields);
      expect([status, body.count]).toEqual([201, 1]);
      const unfit = { name: "Other", csv: "email,name\nann,Ann" };
      expect(await sendForm("PATCH", `${cohorts}/${body.id}`, unfit)).toMatchObject({
        status: 400,
        body: {
          attr: "csv",
          detail: expect.stringContaining("no column distinct_id or person_id"),
        },
      });
      expect((await api.send("GET", `${cohorts}/${body.id}`)).body.name).toBe("Chosen");
      expect(await uuidsOf(body.id)).toEqual([ann.uuid]);
    }
  });

  test("[CO-25] a change with a file that is refused, or that nobody can be added by, is refused as a whole", async () => {
    await api.newPerson(projectId, ["ann"]);
    const members = { name: "Chosen", is_static: true, distinct_ids: ["ann"] };
    const { body: chosen } = await api.send("POST", cohorts, members);
    const { body: ruled } = await api.send("POST", cohorts, { name: "Ruled", filters: RULE });
    const { body: gone } = await api.send("POST", cohorts, { name: "Gone", is_static: true });
    await api.send("DELETE", `${cohorts}/${gone.id}`);
    for (const [id, change, status, attr] of [
      [chosen.id, { csv: "" }, 400, "csv"],
      [chosen.id, { csv: 'bob\n"cy' }, 400, "csv"],
      [chosen.id, { csv: "ann", deleted: true }, 400, "deleted"],
      [chosen.id, { csv: "ann", is_static: false }, 400, "is_static"],
      [ruled.id, { csv: "ann" }, 400, null],
      [gone.id, { csv: "ann" }, 404, null],
    ] as const) {
      const before = (await api.send("GET", `${cohorts}/${id}`)).body;
      const answer = await api.send("PATCH", `${cohorts}/${id}`, { name: "Changed", ...change });
      expect(answer).toMatchObject({ status, body: { attr } });
      expect((await api.send("GET", `${cohorts}/${id}`)).body).toEqual(before);
    }
    const restored = { name: "Back", deleted: false, csv: "ann" };
    expect(await api.send("PATCH", `${cohorts}/${gone.id}`, restored)).toMatchObject({
      status: 200,
      body: { name: "Back", count: 1 },
    });
  });

  test("[CO-25] the other fields of a form are read as JSON is: as what they are declared to be", async () => {
    await api.newPerson(projectId, ["ann"]);
    for (const [fields, attr] of [
      [{ is_static: "perhaps" }, "is_static"],
      [{ is_static: "true", deleted: "" }, "deleted"],
      [{ filters: "{" }, "filters"],
    ] as const) {
      const answer = await sendForm("POST", cohorts, { name: "N", ...fields });
      expect(answer).toMatchObject({ status: 400, body: { attr } });
    }
    const made = await sendForm("POST", cohorts, {
      ...{ name: "a\0b", is_static: "On", distinct_ids: '["ann"]' },
    });
    expect(made).toMatchObject({ status: 201, body: { name: "a\ufffdb", count: 1 } });
  });

  test("[CO-25] a form that cannot be read is refused", async () => {
    const headers = { "content-type": "multipart/form-data" };
    expect(await api.send("POST", cohorts, "x", headers)).toMatchObject({
      status: 400,
      body: { code: "parse_error" },
    });
  });

  test("[CO-25] 100,000 rows are added in steps that can be watched, and leave room for others", async () => {
    await manyPersons(20_000);
    const { body: cohort } = await api.send("POST", cohorts, { name: "Many", is_static: true });
    const rows = Array.from({ length: 100_000 }, (_, n) => `p${n}`);
    const upload = sendForm("PATCH", `${cohorts}/${cohort.id}`, { csv: rows.join("\n") });
    let isOver = false;
    const seen: { is_calculating: boolean; count: number }[] = [];
    const watching = (async () => {
      while (!isOver) {
        seen.push((await api.send("GET", `${cohorts}/${cohort.id}`)).body);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    })();
    const { status, body } = await upload;
    isOver = true;
    await watching;
    expect(status).toBe(200);
    expect(body).toMatchObject({ count: 20_000, unknown_count: 80_000, is_calculating: false });
    expect(body.unknown_distinct_ids.length).toBe(1_000);
    const during = seen.filter(({ is_calculating }) => is_calculating).map(({ count }) => count);
    expect(new Set(during).size).toBeGreaterThan(3);
  });
});

describe("persons of a list", () => {
  test("[CO-26] are listed a page at a time, by the links, whatever is removed meanwhile", async () => {
    const uuids = await manyPersons(7);
    const { body: cohort } = await api.send("POST", cohorts, {
      name: "Chosen",
      is_static: true,
      _create_static_person_ids: uuids,
    });
    const path = `${cohorts}/${cohort.id}`;
    const { body: first } = await api.send("GET", `${path}/persons?limit=3`);
    expect(first).toMatchObject({ count: 7, previous: null });
    await api.send("PATCH", `${path}/remove_person_from_static_cohort`, { person_id: uuids[0] });
    const found = [...first.results];
    for (let { next } = first; next !== null; ) {
      const { body } = await api.send("GET", next.slice(next.indexOf("/api/")));
      found.push(...body.results);
      next = body.next;
    }
    expect(found.map(({ uuid }) => uuid)).toEqual(uuids);
    expect(found[0]).toMatchObject({ name: "p0", distinct_ids: ["p0"], properties: {} });
    const offset = await api.send("GET", `${path}/persons?limit=2&offset=4`);
    expect(offset.body.results.map(({ uuid }: { uuid: string }) => uuid)).toEqual(uuids.slice(5));
    expect(await api.send("GET", `${path}/persons?cursor=x`)).toMatchObject({
      status: 400,
      body: { attr: "cursor" },
    });
  });

  test("[CO-26] of a deleted or unknown cohort are not found", async () => {
    const { body: cohort } = await api.send("POST", cohorts, { name: "Chosen", is_static: true });
    await api.send("DELETE", `${cohorts}/${cohort.id}`);
    for (const id of [cohort.id, 987654]) {
      expect((await api.send("GET", `${cohorts}/${id}/persons`)).status).toBe(404);
    }
  });

  test("[CO-26] who is deleted is gone from the list and the count", async () => {
    const uuids = await manyPersons(2);
    const { body: cohort } = await api.send("POST", cohorts, {
      name: "Chosen",
      is_static: true,
      _create_static_person_ids: uuids,
    });
    const store = createMembershipStore(api.database);
    const [id = 0] = await store.memberIds(cohort.id, { after: 0, upTo: null }, 1);
    await store.changeMembers(projectId, cohort.id, { add: [], remove: [id] });
    expect((await api.send("GET", `${cohorts}/${cohort.id}`)).body.count).toBe(1);
    expect(await uuidsOf(cohort.id)).toEqual(uuids.slice(1));
  });
});

describe("a cohort whose patterns take too long", () => {
  test("[CO-26] is refused where its persons are asked for, and leaves no copy behind", async () => {
    await manyPersons(1_000);
    await api.database.writes
      .updateTable("persons")
      .set({ properties: JSON.stringify({ plan: "a".repeat(600) }) })
      .where("project_id", "=", projectId)
      .execute();
    const { body: cohort } = await api.send("POST", cohorts, { name: "Slow", filters: RULE });
    const refused = {
      status: 400,
      body: { type: "validation_error", code: "invalid_input", attr: "filters" },
    };
    const path = `${cohorts}/${cohort.id}`;
    expect(await api.send("GET", `${path}/persons`)).toMatchObject(refused);
    for (const method of ["GET", "POST"] as const) {
      expect(await api.send(method, `${path}/duplicate_as_static_cohort`)).toMatchObject(refused);
    }
    expect((await api.send("GET", cohorts)).body.count).toBe(1);
  });
});

describe("a cohort in use", () => {
  test("[CO-27] is deleted when that is forced; what uses it fails and says so", async () => {
    const { body: cohort } = await api.send("POST", cohorts, { name: "Used", is_static: true });
    const filters = {
      groups: [{ properties: [{ key: "id", type: "cohort", operator: "in", value: cohort.id }] }],
    };
    const flags = `/api/projects/${projectId}/feature_flags`;
    await api.send("POST", flags, { key: "k", filters });
    expect((await api.send("DELETE", `${cohorts}/${cohort.id}`)).status).toBe(400);
    expect((await api.send("DELETE", `${cohorts}/${cohort.id}?force=false`)).status).toBe(400);
    expect((await api.send("DELETE", `${cohorts}/${cohort.id}?force=true`)).status).toBe(204);
    const { flagSet } = await api.compiledFlags.get(projectId);
    expect(flagSet.cohorts.has(cohort.id)).toBe(false);
    expect((await api.send("GET", `${cohorts}/${cohort.id}`)).body.deleted).toBe(true);
  });
});

test("[CO-6] lists of up to 1,000 values are taken, of 10,000 refused naming the property", async () => {
  const rule = (count: number) => ({
    filters: {
      properties: {
        type: "AND",
        values: [
          {
            key: "email",
            type: "person",
            operator: "exact",
            value: Array.from({ length: count }, (_, n) => `p${n}@example.com`),
          },
        ],
      },
    },
  });
  expect((await api.send("POST", cohorts, { name: "c", ...rule(1_000) })).status).toBe(201);
  expect(await api.send("POST", cohorts, { name: "c", ...rule(10_000) })).toMatchObject({
    status: 400,
    body: {
      attr: "filters",
      detail: "Property group expressions of type email cannot contain more than 1000 values.",
    },
  });
});
