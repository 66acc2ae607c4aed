import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import buildSerializer from "fast-json-stringify";
import type { FastifySchema, InjectOptions } from "fastify";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { composeService, type Service } from "../compose.ts";
import { readConfig } from "../config.ts";
import { collectSchemas, describeApi } from "./openapi.ts";
import { validatorCompiler } from "./validate-body.ts";

/** One management operation of the composed service, as its own description tells it. */
interface Operation {
  readonly method: NonNullable<InjectOptions["method"]>;
  /** With parameters in braces. */
  readonly path: string;
  /** `undefined` where any key will do. */
  readonly scope: string | undefined;
  readonly takesBody: boolean;
}

const data = mkdtempSync(join(tmpdir(), "hedgerow-routes-"));
const routeSchemas: FastifySchema[] = [];
let service: Service;
let described: Readonly<Record<string, Record<string, DescribedOperation>>>;
let operations: readonly Operation[];
let projectId: number;
let organizationId: string;
let fullKey: string;

interface DescribedOperation {
  readonly operationId?: string;
  readonly security?: readonly { readonly personalKey?: readonly string[] }[];
  readonly requestBody?: object;
}

beforeAll(async () => {
  service = await composeService(readConfig(["--data", data], {}), pino({ level: "silent" }), {
    prepareApp: (app) => {
      collectSchemas(app);
      app.addHook("onRoute", ({ schema = {} }) => {
        routeSchemas.push(schema);
      });
    },
  });
  await service.app.ready();
  if (!service.firstBoot) throw new Error("a new folder has a first boot");
  ({ id: projectId, organizationId } = service.firstBoot.project);
  fullKey = service.firstBoot.personalKey;
  described = JSON.parse(describeApi(service.app)).paths;
  operations = Object.entries(described).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { security, requestBody }]) => {
      const scopes = security?.[0]?.personalKey;
      if (!scopes) return [];
      const takesBody = requestBody !== undefined;
      return [
        { method: method.toUpperCase() as Operation["method"], path, scope: scopes[0], takesBody },
      ];
    }),
  );
});
afterAll(async () => {
  await service.close();
  rmSync(data, { recursive: true, force: true });
});

/** Public routes below `/api`: SDKs read flag definitions there with keys of two kinds. */
const PUBLIC_BELOW_API =
  /local_evaluation|early_access_features|web_experiments|surveys|product_tours|remote_config/;

/** What only asks, with more to say than fits into an address. */
const ASKS_BY_POST =
  /\/(query|feature_flags\/(\{id\}\/explain|bulk_keys|user_blast_radius)|experiments\/calculate_running_time)$/;

test("every schema compiles, though a service does so only when one is used", () => {
  const answers = routeSchemas.flatMap(({ response }) =>
    Object.values((response ?? {}) as Record<string, object>),
  );
  expect(answers.length).toBeGreaterThan(50);
  for (const schema of answers) {
    expect(() => buildSerializer(schema), JSON.stringify(schema).slice(0, 200)).not.toThrow();
  }
  const bodies = routeSchemas.flatMap(({ body }) => (body ? [body as object] : []));
  expect(bodies.length).toBeGreaterThan(10);
  for (const schema of bodies) {
    const validate = validatorCompiler({ schema, httpPart: "body", method: "POST", url: "/" });
    expect(() => validate({}), JSON.stringify(schema).slice(0, 200)).not.toThrow();
  }
});

test("[AC-50] every operation has a name of its own and tells the keys that it takes, if any", () => {
  const all = Object.entries(described).flatMap(([path, methods]) =>
    Object.values(methods).map((operation) => ({ path, ...operation })),
  );
  expect(all.length).toBeGreaterThan(200);
  const names = all.map(({ operationId = "" }) => operationId);
  for (const name of names) expect(name).toMatch(/^[a-z]+[A-Z0-9]\w*$/);
  expect(new Set(names).size).toBe(names.length);
  const keysAt = (path: string) =>
    all.find((one) => one.path === path)?.security?.map((one) => Object.keys(one)[0]);
  expect(keysAt("/decide")).toEqual([]);
  expect(keysAt("/flags/definitions")).toEqual(["secretKey", "personalKey"]);
  expect(keysAt("/api/projects/{project_id}/persons")).toEqual(["personalKey"]);
  expect(all.filter(({ security }) => security === undefined)).toEqual([]);
});

test("[AC-58] that there is no such thing is said before what is wrong with the body", async () => {
  const unknown: Record<string, string> = {
    project_id: String(projectId),
    organization_id: organizationId,
    uuid: "00000000-0000-4000-8000-000000000000",
  };
  const asked = operations.filter(
    ({ method, path, takesBody }) =>
      takesBody && method !== "GET" && /\{(?!project_id|organization_id)/.test(path),
  );
  expect(asked.length).toBeGreaterThan(25);
  for (const { method, path } of asked) {
    const answer = await service.app.inject({
      method,
      url: path.replace(/\{(\w+)\}/g, (_, name: string) => unknown[name] ?? "999999"),
      headers: { authorization: `Bearer ${fullKey}`, "content-type": "application/json" },
    });
    expect([method, path, answer.statusCode]).toEqual([method, path, 404]);
  }
});

const makeKey = async (body: object): Promise<string> => {
  const answer = await service.app.inject({
    method: "POST",
    url: "/api/personal_api_keys",
    headers: { authorization: `Bearer ${fullKey}` },
    payload: { label: "walk", ...body },
  });
  expect(answer.statusCode).toBe(201);
  return answer.json().value;
};

/** The path with its parameters filled in; records get a number that none has. */
function urlOf(path: string, { project = String(projectId), organization = organizationId } = {}) {
  return path
    .replace("{project_id}", project)
    .replace("{organization_id}", organization)
    .replace(/\{uuid\}/, "@me")
    .replace(/\{\w+\}/g, "999999");
}

async function call(
  { method, path, takesBody }: Operation,
  options: { key?: string; payload?: unknown; project?: string; organization?: string },
) {
  const answer = await service.app.inject({
    method,
    url: urlOf(path, options),
    headers: { ...(options.key !== undefined && { authorization: `Bearer ${options.key}` }) },
    ...(takesBody && { payload: (options.payload ?? {}) as object }),
  });
  return { name: `${method} ${path}`, status: answer.statusCode, answer };
}

/** Every refusal has exactly the four fields. */
function expectRefusal(
  { name, status, answer }: Awaited<ReturnType<typeof call>>,
  expected: { status: number; code: string; detail?: string; attr?: string },
) {
  const body = answer.json();
  expect({ name, status, fields: Object.keys(body).toSorted() }).toEqual({
    name,
    status: expected.status,
    fields: ["attr", "code", "detail", "type"],
  });
  expect({ name, code: body.code }).toEqual({ name, code: expected.code });
  if (expected.detail !== undefined) {
    expect({ name, detail: body.detail }).toEqual({ name, detail: expected.detail });
  }
  if (expected.attr !== undefined) {
    expect({ name, attr: body.attr }).toEqual({ name, attr: expected.attr });
  }
}

describe("every management route", () => {
  test("[AC-50] declares its access, and there are many of them", () => {
    const open = Object.entries(described)
      .filter(([path]) => path.startsWith("/api/") && !PUBLIC_BELOW_API.test(path))
      .flatMap(([path, methods]) =>
        Object.entries(methods)
          .filter(([, { security }]) => !security)
          .map(([method]) => `${method} ${path}`),
      );
    expect(open).toEqual([]);
    expect(operations.length).toBeGreaterThan(25);
    const withoutScope = operations.filter(({ scope }) => scope === undefined);
    expect(withoutScope.map(({ path }) => path)).toEqual(["/api/personal_api_keys/@current"]);
  });

  test("[AC-51] answers 401 without a key, with a challenge", async () => {
    for (const operation of operations) {
      const called = await call(operation, {});
      expectRefusal(called, {
        status: 401,
        code: "not_authenticated",
        detail: "Authentication credentials were not provided.",
      });
      expect(called.answer.headers["www-authenticate"]).toBe("Bearer");
    }
  });

  test("[AC-51] answers 401 to a key that nobody has, and to the project key", async () => {
    for (const operation of operations) {
      for (const key of ["phx_nobodys", service.firstBoot?.projectKey ?? ""]) {
        expectRefusal(await call(operation, { key }), {
          status: 401,
          code: "authentication_failed",
          detail: "Personal API key found in request Authorization header is invalid.",
        });
      }
    }
  });

  test("[AC-52] answers 403 to a key of another scope and names the missing one", async () => {
    const key = await makeKey({ scopes: ["webhook:read"] });
    for (const operation of operations) {
      if (operation.scope === undefined) continue;
      expectRefusal(await call(operation, { key }), {
        status: 403,
        code: "permission_denied",
        detail: `API key missing required scope '${operation.scope}'`,
      });
    }
  });

  test("[AC-52] does not let a key that only reads change anything", async () => {
    for (const operation of operations) {
      if (!operation.scope?.endsWith(":write")) {
        const asks = operation.method === "GET" || ASKS_BY_POST.test(operation.path);
        expect([operation.path, asks]).toEqual([operation.path, true]);
        continue;
      }
      const scope = operation.scope.replace(":write", ":read");
      const key = await makeKey({ scopes: [scope] });
      expectRefusal(await call(operation, { key }), { status: 403, code: "permission_denied" });
      const { id } = (
        await service.app.inject({
          url: "/api/personal_api_keys/@current",
          headers: { authorization: `Bearer ${key}` },
        })
      ).json();
      await service.app.inject({
        method: "DELETE",
        url: `/api/personal_api_keys/${id}`,
        headers: { authorization: `Bearer ${fullKey}` },
      });
    }
  });

  test("[AC-53] answers 404 below a project or an organization that does not exist", async () => {
    for (const operation of operations) {
      if (operation.path.includes("{project_id}")) {
        for (const project of ["999999", "abc", "-1"]) {
          expectRefusal(await call(operation, { key: fullKey, project }), {
            status: 404,
            code: "not_found",
            detail: "Project not found.",
          });
        }
      }
      if (operation.path.includes("{organization_id}")) {
        for (const organization of ["88888888-8888-4888-8888-888888888888", "abc"]) {
          expectRefusal(await call(operation, { key: fullKey, organization }), {
            status: 404,
            code: "not_found",
            detail: "Organization not found.",
          });
        }
      }
    }
  });

  test("[AC-54] answers 403 below a project to a key that is bound to another one", async () => {
    const created = await service.app.inject({
      method: "POST",
      url: "/api/projects",
      headers: { authorization: `Bearer ${fullKey}` },
      payload: { name: "Elsewhere" },
    });
    const key = await makeKey({ scopes: ["*"], scoped_teams: [created.json().id] });
    for (const operation of operations) {
      if (!operation.path.includes("{project_id}")) continue;
      expectRefusal(await call(operation, { key }), {
        status: 403,
        code: "permission_denied",
        detail: `API key does not have access to the requested project: ID ${projectId}.`,
      });
    }
  });

  test("[AC-55] answers 400 to a body that is no JSON or no object", async () => {
    for (const operation of operations) {
      if (!operation.takesBody) continue;
      const malformed = await service.app.inject({
        method: operation.method,
        url: urlOf(operation.path),
        headers: { authorization: `Bearer ${fullKey}`, "content-type": "application/json" },
        payload: '{"name": ',
      });
      const name = `${operation.method} ${operation.path}`;
      expectRefusal(
        { name, status: malformed.statusCode, answer: malformed },
        { status: 400, code: "parse_error" },
      );
      expectRefusal(await call(operation, { key: fullKey, payload: [] }), {
        status: 400,
        code: "invalid_input",
        detail: "Invalid data. Expected a dictionary, but got list.",
      });
    }
  });

  test("[AC-70] refuses more values than are read, naming the field, before anything is done with them", async () => {
    for (const operation of operations) {
      if (!operation.takesBody) continue;
      const payload = { many: Array(100_000).fill(1) };
      expectRefusal(await call(operation, { key: fullKey, payload }), {
        status: 400,
        code: "invalid_input",
        detail: "Request too large: more than 100000 values.",
        attr: "many",
      });
    }
  });

  test("[AC-73] a url-encoded form has 4 MiB at most", async () => {
    const send = (bytes: number) =>
      service.app.inject({
        method: "POST",
        url: "/api/projects",
        headers: {
          authorization: `Bearer ${fullKey}`,
          "content-type": "application/x-www-form-urlencoded",
        },
        payload: `name=${"n".repeat(bytes - "name=".length)}`,
      });
    expect((await send(4 * 2 ** 20)).json()).toMatchObject({ code: "max_length", attr: "name" });
    const refused = await send(4 * 2 ** 20 + 1);
    expect([refused.statusCode, refused.json().code]).toEqual([413, "request_too_large"]);
  });

  test("[AC-56] lets the holder of every scope in, and refuses nothing as a fault of its own", async () => {
    const { id } = (
      await service.app.inject({
        method: "POST",
        url: "/api/projects",
        headers: { authorization: `Bearer ${fullKey}` },
        payload: { name: "Playground" },
      })
    ).json();
    const last = ({ method }: Operation) => (method === "DELETE" ? 1 : 0);
    // Whoever is let in to live events stays: the tests of that route show who is.
    const ending = operations.filter(({ path }) => !path.endsWith("/live_events"));
    for (const operation of ending.toSorted((one, other) => last(one) - last(other))) {
      const { name, status } = await call(operation, { key: fullKey, project: String(id) });
      const isGone = status === 404 && operation.method === "DELETE";
      expect({ name, refused: !isGone && [401, 403].includes(status) }).toEqual({
        name,
        refused: false,
      });
      expect({ name, faulty: status >= 500 }).toEqual({ name, faulty: false });
    }
  });

  describe("asked by OPTIONS", () => {
    const paths = () =>
      [...new Set(operations.map(({ path }) => path))].map((path) => {
        const methods = operations.filter((one) => one.path === path);
        const scope = methods[0]?.scope?.replace(/:write$/, ":read");
        const options: Operation = { method: "OPTIONS", path, scope, takesBody: false };
        return { options, methods: methods.map(({ method }) => method) };
      });

    test("[AC-57] tells what it is and which methods and types it takes", async () => {
      for (const { options, methods } of paths()) {
        const { name, status, answer } = await call(options, { key: fullKey });
        expect({ name, status, body: answer.json() }).toEqual({
          name,
          status: 200,
          body: {
            name: expect.stringMatching(/\w/),
            description: expect.any(String),
            renders: ["application/json"],
            parses: [
              "application/json",
              "application/x-www-form-urlencoded",
              "multipart/form-data",
            ],
          },
        });
        const allowed = String(answer.headers.allow).split(", ");
        expect({ name, allowed: allowed.filter((one) => one !== "HEAD").toSorted() }).toEqual({
          name,
          allowed: [...methods, "OPTIONS"].toSorted(),
        });
      }
    });

    test("[AC-57] takes a key that may read, and no other", async () => {
      const stranger = await makeKey({ scopes: ["webhook:read"] });
      for (const { options } of paths()) {
        expectRefusal(await call(options, {}), { status: 401, code: "not_authenticated" });
        if (options.scope === undefined) continue;
        expectRefusal(await call(options, { key: stranger }), {
          status: 403,
          code: "permission_denied",
          detail: `API key missing required scope '${options.scope}'`,
        });
        if (!options.path.includes("{project_id}")) continue;
        expectRefusal(await call(options, { key: fullKey, project: "999999" }), {
          status: 404,
          code: "not_found",
          detail: "Project not found.",
        });
      }
      const scopes = [...new Set(paths().flatMap(({ options }) => options.scope ?? []))];
      const reader = await makeKey({ scopes });
      for (const { options } of paths()) {
        const { name, status } = await call(options, { key: reader });
        expect({ name, status }).toEqual({ name, status: 200 });
      }
    });
  });
});
