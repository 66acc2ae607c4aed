import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type AccountsApi, openAccountsApi } from "./accounts-api.setup.ts";

let api: AccountsApi;
beforeAll(async () => {
  api = await openAccountsApi();
});
afterAll(() => api.close());

const uuid = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/;
const home = () => `/api/organizations/${api.firstBoot.project.organizationId}/projects`;
const create = async (body: object = {}) =>
  (await api.call("POST", "/api/projects", { body })).json();

type Fault = readonly [body: object, code: string, detail: string, attr: string];

describe("a project on the wire", () => {
  test("[AC-20] carries what clients read, and in full what PostHog's clients expect to be there", async () => {
    const { project } = api.firstBoot;
    const answer = await api.call("GET", `/api/projects/${project.id}/`);
    expect(answer.statusCode).toBe(200);
    expect(answer.json()).toMatchObject({
      id: project.id,
      uuid: expect.stringMatching(uuid),
      organization: expect.stringMatching(uuid),
      api_token: project.apiToken,
      secret_api_token: project.secretApiToken,
      name: "Default project",
      timezone: "UTC",
      is_demo: false,
      anonymize_ips: false,
      effective_membership_level: 15,
      created_at: "2026-03-01T10:00:00.123000Z",
      updated_at: "2026-03-01T10:00:00.123000Z",
      session_recording_opt_in: false,
      app_urls: [],
      primary_dashboard: null,
      secret_api_token_backup: null,
    });
    const current = await api.call("GET", "/api/projects/@current");
    expect(current.json()).toEqual(answer.json());
  });

  test("[AC-20] tells whether events came and which group types there are", async () => {
    const { id } = await create();
    const read = async () => (await api.call("GET", `/api/projects/${id}`)).json();
    expect(await read()).toMatchObject({
      ingested_event: false,
      has_group_types: false,
      group_types: [],
    });
    api.projectsWithEvents.add(id);
    api.groupTypes.set(id, [{ index: 0, name: "company" }]);
    expect(await read()).toMatchObject({
      ingested_event: true,
      has_group_types: true,
      group_types: [{ group_type: "company", group_type_index: 0 }],
    });
  });

  test("[AC-21] shows the secret key only to keys that read flag definitions anyway", async () => {
    const { id } = api.firstBoot.project;
    const seenBy = async (scopes: string[]) => {
      const key = await api.keyWith({ scopes });
      return (await api.call("GET", `/api/projects/${id}`, { key })).json().secret_api_token;
    };
    expect(await seenBy(["project:read"])).toBeNull();
    expect(await seenBy(["project:write", "cohort:read"])).toBeNull();
    expect(await seenBy(["project:read", "feature_flag:read"])).toMatch(/^phs_/);
  });
});

describe("lists of projects", () => {
  test("[AC-22] hold the short form, page by page, and nothing of other organizations", async () => {
    for (const name of ["Two", "Three"]) await create({ name });
    const first = (await api.call("GET", "/api/projects?limit=2")).json();
    expect(first.results).toHaveLength(2);
    expect(first).toMatchObject({ previous: null, next: expect.stringContaining("offset=2") });
    expect(first.results[0]).not.toHaveProperty("secret_api_token");
    const all = (await api.call("GET", "/api/projects")).json();
    expect(all.count).toBe(all.results.length);
    const ids = all.results.map(({ id }: { id: number }) => id);
    expect(ids).toEqual(ids.toSorted((one: number, other: number) => one - other));
    expect(ids).not.toContain(api.foreign.project.id);
    const rest = (await api.call("GET", first.next.replace("http://localhost", ""))).json();
    expect(rest.results[0].id).toBe(ids[2]);
    expect((await api.call("GET", home())).json()).toEqual(all);
  });
});

describe("changing a project", () => {
  test("[AC-23] name, time zone and IP rule change, at once for whoever remembers projects", async () => {
    const { id } = await create();
    api.projectEvents.length = 0;
    const body = { name: "  Shop ", timezone: "Europe/Berlin", anonymize_ips: true, id: 7, foo: 1 };
    const answer = await api.call("PATCH", `/api/projects/${id}/`, { body });
    const changed = { id, name: "Shop", timezone: "Europe/Berlin", anonymize_ips: true };
    expect([answer.statusCode, answer.json()]).toMatchObject([200, changed]);
    expect((await api.call("GET", `/api/projects/${id}`)).json()).toEqual(answer.json());
    expect(api.projectEvents).toMatchObject([
      { kind: "changed", project: { id, timeZone: "Europe/Berlin" } },
    ]);
    const partial = await api.call("PATCH", `/api/projects/${id}`, { body: { name: "Bar" } });
    expect(partial.json()).toMatchObject({ ...changed, name: "Bar" });
  });

  test.each<Fault>([
    [{ name: "" }, "blank", "This field may not be blank.", "name"],
    [{ name: "  \t" }, "blank", "This field may not be blank.", "name"],
    [{ name: null }, "null", "This field may not be null.", "name"],
    [{ name: 5 }, "invalid_input", "Not a valid string.", "name"],
    [
      { name: "x".repeat(201) },
      "max_length",
      "Ensure this field has no more than 200 characters.",
      "name",
    ],
    [{ anonymize_ips: "maybe" }, "invalid_input", "Must be a valid boolean.", "anonymize_ips"],
    ...["Mars/Olympus", "", "+02:00", "UTC+2", "Europe/Berlin\u0000", "__proto__"].map(
      (zone): Fault => [
        { timezone: zone },
        "invalid_choice",
        `"${zone.replace("\u0000", "\uFFFD")}" is not a valid choice.`,
        "timezone",
      ],
    ),
  ])(
    "[AC-24] %j is refused with the field at fault and changes nothing",
    async (body, code, detail, attr) => {
      const { id } = api.firstBoot.project;
      const before = (await api.call("GET", `/api/projects/${id}`)).json();
      const answer = await api.call("PATCH", `/api/projects/${id}`, {
        body: { anonymize_ips: true, ...body },
      });
      expect([answer.statusCode, answer.json()]).toEqual([
        400,
        { type: "validation_error", code, detail, attr },
      ]);
      expect((await api.call("GET", `/api/projects/${id}`)).json()).toEqual(before);
    },
  );

  test.each([
    "Asia/Kolkata",
    "Asia/Calcutta",
    "America/Argentina/Buenos_Aires",
    "UTC",
    "Etc/GMT+5",
  ])("[AC-24] the time zone %s is kept as it was chosen", async (timezone) => {
    expect(await create({ timezone })).toMatchObject({ timezone });
  });

  test("[AC-25] a reset gives a new public key and takes the old one away", async () => {
    const { id, api_token } = await create();
    const answer = await api.call("PATCH", `/api/projects/${id}/reset_token/`);
    expect(answer.statusCode).toBe(200);
    const renewed = answer.json().api_token;
    expect(renewed).toMatch(/^phc_[0-9A-Za-z]{43}$/);
    expect(renewed).not.toBe(api_token);
    expect(await api.accounts.projectByApiToken(api_token)).toBeUndefined();
    expect((await api.accounts.projectByApiToken(renewed))?.id).toBe(id);
    expect(api.projectEvents.at(-1)).toMatchObject({ kind: "changed", project: { id } });
  });
});

describe("the secret key of a project", () => {
  test("[AC-41] [AC-42] is rotated, the one before opens the same until it is dropped", async () => {
    const { id, secret_api_token: first } = await create();
    const act = async (action: string) => {
      const answer = await api.call("PATCH", `/api/projects/${id}/${action}/`);
      expect(answer.statusCode).toBe(200);
      return answer.json();
    };
    const opens = async (key: string) => (await api.accounts.projectBySecretToken(key))?.id === id;
    const rotated = await act("rotate_secret_token");
    const second = rotated.secret_api_token;
    expect(second).toMatch(/^phs_[0-9A-Za-z]{43}$/);
    expect(second).not.toBe(first);
    expect(rotated.secret_api_token_backup).toBe(first);
    expect([await opens(first), await opens(second)]).toEqual([true, true]);
    expect(await act("delete_secret_token_backup")).toMatchObject({
      ...{ secret_api_token: second, secret_api_token_backup: null },
    });
    expect([await opens(first), await opens(second)]).toEqual([false, true]);
    expect(await act("delete_secret_token_backup")).toMatchObject({ secret_api_token: second });
  });
});

describe("projects of an organization, as Terraform handles them", () => {
  test("[AC-26] are created, read, changed and deleted below it", async () => {
    const created = await api.call("POST", `${home()}/`, {
      body: { name: "Terra", timezone: "US/Pacific" },
    });
    const project = created.json();
    expect([created.statusCode, project]).toMatchObject([
      201,
      { name: "Terra", timezone: "US/Pacific", api_token: expect.stringMatching(/^phc_/) },
    ]);
    expect(api.projectEvents.at(-1)).toMatchObject({
      kind: "created",
      project: { id: project.id },
    });
    const url = `${home()}/${project.id}/`;
    expect((await api.call("GET", url)).json()).toEqual(project);
    const changed = await api.call("PATCH", url, { body: { name: "Form" } });
    expect(changed.json()).toMatchObject({ id: project.id, name: "Form" });
    const deleted = await api.call("DELETE", url);
    expect([deleted.statusCode, deleted.body]).toEqual([204, ""]);
    expect(api.projectEvents.at(-1)).toMatchObject({
      kind: "deleted",
      project: { id: project.id },
    });
    for (const gone of [url, `/api/projects/${project.id}`]) {
      expect((await api.call("GET", gone)).statusCode).toBe(404);
    }
  });

  test("[AC-26] a project of another organization is not found below this one", async () => {
    for (const method of ["GET", "PATCH", "DELETE"] as const) {
      for (const id of [api.foreign.project.id, "x", 999_999, "%00"]) {
        const answer = await api.call(method, `${home()}/${id}`);
        expect([answer.statusCode, answer.json().detail]).toEqual([404, "Project not found."]);
      }
    }
  });

  test("[AC-27] plain members neither create nor delete projects nor reset their keys", async () => {
    const { accounts, firstBoot, foreign } = api;
    await accounts.addMember(foreign.organization.id, firstBoot.admin.id, 1);
    const project = `/api/projects/${foreign.project.id}`;
    const create = await api.call("POST", `/api/organizations/${foreign.organization.id}/projects`);
    expect([create.statusCode, create.json().detail]).toEqual([
      403,
      "Your organization access level is insufficient.",
    ]);
    for (const [method, url] of [
      ["DELETE", project],
      ["PATCH", `${project}/reset_token`],
      ["PATCH", `${project}/rotate_secret_token`],
      ["PATCH", `${project}/delete_secret_token_backup`],
    ] as const) {
      const answer = await api.call(method, url);
      expect([answer.statusCode, answer.json().detail]).toEqual([
        403,
        "You don't have sufficient permissions in the project.",
      ]);
    }
    expect((await api.call("GET", project)).json()).toMatchObject({
      effective_membership_level: 1,
    });
    expect((await api.call("PATCH", project, { body: { name: "Ours" } })).statusCode).toBe(200);
  });
});

describe("organizations", () => {
  test("[AC-28] are listed and retrieved with their projects and members", async () => {
    const { organizationId, id } = api.firstBoot.project;
    const listed = (await api.call("GET", "/api/organizations/")).json();
    expect(listed.results[0]).toEqual({
      id: organizationId,
      name: "My organization",
      slug: "my-organization",
      logo_media_id: null,
      membership_level: 15,
      members_can_use_personal_api_keys: true,
    });
    const detail = (await api.call("GET", `/api/organizations/${organizationId}/`)).json();
    expect(detail).toMatchObject({ id: organizationId, member_count: 1, plugins_access_level: 9 });
    expect(detail.projects[0]).toMatchObject({ id, organization: organizationId });
    expect(detail.teams).toEqual(detail.projects);
    expect((await api.call("GET", "/api/organizations/@current")).json()).toEqual(detail);
  });
});

describe("the caller", () => {
  test("[AC-29] reads their own record as @me or by UUID, and no other", async () => {
    const { admin, project } = api.firstBoot;
    const answer = await api.call("GET", "/api/users/@me/");
    expect([answer.statusCode, answer.json()]).toMatchObject([
      200,
      {
        id: admin.id,
        uuid: admin.uuid,
        distinct_id: admin.distinctId,
        email: admin.email,
        team: { id: project.id, organization: project.organizationId },
        organization: { id: project.organizationId, member_count: 1 },
        has_password: true,
      },
    ]);
    expect(answer.json().organizations[0].id).toBe(project.organizationId);
    expect((await api.call("GET", `/api/users/${admin.uuid}`)).json()).toEqual(answer.json());
    expect((await api.call("GET", `/api/users/${api.foreign.project.uuid}`)).statusCode).toBe(403);
    expect(answer.body).not.toContain("scrypt");
  });
});

test("[AC-30] without the current project @current is the first one left, and with none it is not found", async () => {
  const own = await openAccountsApi();
  const { id } = own.firstBoot.project;
  const second = (await own.call("POST", "/api/projects", { body: { name: "Second" } })).json();
  expect((await own.call("DELETE", `/api/projects/${id}`)).statusCode).toBe(204);
  expect((await own.call("GET", "/api/projects/@current")).json().id).toBe(second.id);
  expect((await own.call("GET", "/api/users/@me")).json().team.id).toBe(second.id);
  expect((await own.call("DELETE", "/api/projects/@current")).statusCode).toBe(204);
  expect((await own.call("GET", "/api/projects/@current")).statusCode).toBe(404);
  expect((await own.call("GET", "/api/users/@me")).json().team).toBeNull();
  await own.close();
});
