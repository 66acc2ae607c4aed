import { isJsonObject } from "@hedgerow/core/json";
import type { FastifyRequest } from "fastify";
import type { Membership, PersonalKey, Project, User } from "../accounts/account-store.ts";
import { grants, type Scope } from "../accounts/scopes.ts";
import { type App, allowOf, arrivingBodiesOf, MAX_BODY_BYTES, withMethodsChecked } from "./app.ts";
import { countArriving } from "./arriving-bodies.ts";
import { bodyOfForm as readFields } from "./body-of-form.ts";
import { checkAccept } from "./check-accept.ts";
import { bearerOf } from "./credentials.ts";
import { Refusal } from "./errors.ts";
import { answerExactNumbers } from "./exact-answers.ts";
import { type FormFile, readFormFiles, readManagementForm } from "./read-form.ts";
import { createJsonReader, type JsonReader } from "./read-json-in-turn.ts";
import { type FileField, takeFormFile } from "./take-form-file.ts";

/**
 * Who may call a management route; every route declares one (`...access("feature_flag:read")`), and
 * a test walks all routes to see that it does. `on` tells what the path is nested under: it
 * decides how scoped projects and organizations of a key are checked (posthog-api 1.4). Routes on a
 * project name it `:project_id` in their path, routes on an organization `:organization_id`.
 */
export interface Access {
  readonly scope: Scope | "any-key";
  readonly on: "project" | "organization" | "user";
}

/** Throws where there is nothing of the kind that a request's path names. */
export type FindNamed = (request: FastifyRequest) => Promise<unknown>;

/**
 * Route options that declare {@link Access}.
 * @param find asked where fields of the body are not as they should be: that there is nothing to
 * change is said first
 */
export function access(
  scope: Scope | "any-key",
  on: Access["on"] = "project",
  find: FindNamed | null = null,
) {
  return { config: { access: { scope, on } satisfies Access, find } };
}

/**
 * Route options of a route that takes files of multipart forms, or reads forms in a way of its own;
 * the others read the fields of forms by the schema of their body.
 * @param toBody makes the body, as JSON would give it, of the form's fields and files; may throw a
 * {@link Refusal}, or reject with one
 */
export function takesForms(
  toBody: (
    fields: ReadonlyMap<string, Buffer>,
    files: () => ReadonlyMap<string, FormFile>,
    reader: JsonReader,
  ) => unknown,
) {
  return { bodyOfForm: toBody };
}

/**
 * Route options of a route one of whose form's fields is a file that is read while it arrives, and
 * never held: see {@link takeFormFile}.
 */
export function takesFile(field: string, begin: FileField["begin"]) {
  return { fileField: { field, begin } satisfies FileField };
}

/** The authenticated caller of a management request. */
export interface Caller {
  readonly user: User;
  readonly key: PersonalKey;
  readonly memberships: readonly Membership[];
  /** Set on routes nested under a project. */
  readonly project: Project | null;
  /** Set on routes nested under an organization, and the project's one on project routes. */
  readonly membership: Membership | null;
}

/** Finds and checks the caller of a request; throws a 401, 403 or 404 {@link Refusal}. */
export type Authenticate = (request: FastifyRequest, access: Access) => Promise<Caller>;

const callers = new WeakMap<FastifyRequest, Caller>();

/** The caller of a management request, as `managementApi` found it. */
export function callerOf(request: FastifyRequest): Caller {
  const caller = callers.get(request);
  if (!caller) throw new Error("the route is not part of the management API");
  return caller;
}

/** Whether the caller's key may read something beside what the route asks for. */
export function mayRead(request: FastifyRequest, scope: Scope): boolean {
  return grants(callerOf(request).key.scopes, scope);
}

/** The project a project-nested management request is about. */
export function projectOf(request: FastifyRequest): Project {
  const { project } = callerOf(request);
  if (!project) throw new Error("the route is not nested under a project");
  return project;
}

/** The organization an organization-nested management request is about, as its caller's membership. */
export function organizationOf(request: FastifyRequest): Membership {
  const { membership } = callerOf(request);
  if (!membership) throw new Error("the route is not nested under an organization");
  return membership;
}

/** Longest body that a key is looked for in: reading it is all that strangers may ask for. */
const MAX_KEYED_BODY_BYTES = 256 * 1024;

/**
 * A scope of routes for holders of personal keys. Credentials are checked before the body: a
 * key in the header before a byte of it arrives, any other before more is read of it than that key.
 */
export function managementApi(
  app: App,
  authenticate: Authenticate,
  register: (app: App) => void,
): void {
  app.register(async (scope) => {
    const management = scope as App;
    const identify = async (request: FastifyRequest) => {
      callers.set(request, await authenticate(request, accessOf(request)));
    };
    readJsonBodies(management);
    const reader = createJsonReader();
    answerExactNumbers(management);
    const paths = new Map<string, ManagementPath>();
    management.addHook("onRoute", (route) => {
      if (route.schema?.hide) return;
      const { access } = (route.config ?? {}) as { access?: Access };
      if (!access) throw new Error(`${route.url} declares no access`);
      route.attachValidation = true;
      // The description of the API tells the scope, and the test that walks all routes reads it there.
      const scopes = access.scope === "any-key" ? [] : [access.scope];
      route.schema = { ...route.schema, security: [{ personalKey: scopes }] };
      const path = paths.get(route.url) ?? {
        access: readingAccess(access),
        name: route.schema.summary ?? route.url,
        description: route.schema.description ?? "",
        methods: new Set(),
      };
      for (const method of [route.method].flat()) path.methods.add(method);
      paths.set(route.url, path);
    });
    management.addHook("onRequest", async (request) => {
      checkAccept(request);
      const { answersWrongMethod } = request.routeOptions.config as { answersWrongMethod?: true };
      // A body may carry the key, but only where the header does not.
      if (answersWrongMethod || (mayHoldKey(request) && bearerOf(request) === undefined)) return;
      await identify(request);
    });
    const arriving = arrivingBodiesOf(management);
    management.addHook("preParsing", async (request, _reply, payload) => {
      const { fileField } = request.routeOptions.config as Partial<ReturnType<typeof takesFile>>;
      const rest = fileField ? await takeFormFile(fileField, request, payload) : payload;
      if (rest !== payload) return rest;
      // What is longer is not looked into for a key: whoever has none elsewhere is refused before it is read.
      const beyond = callers.has(request)
        ? undefined
        : { bytes: MAX_KEYED_BODY_BYTES, ask: () => identify(request) };
      return countArriving(arriving, request.headers, {
        payload,
        maxBytes: MAX_BODY_BYTES,
        beyond,
      });
    });
    management.addHook("preValidation", async (request) => {
      const unread = request.body instanceof UnreadBody ? request.body : undefined;
      if (!callers.has(request)) {
        request.body = unread && (await keyFieldOf(unread, request, reader));
        await identify(request);
      }
      const body = await unread?.read(unread.bytes, request, reader);
      // The key is no field of what is sent with it: what takes fields of any name would keep it.
      if (isJsonObject(body)) Reflect.deleteProperty(body, KEY_FIELD);
      // No body is an object without fields: the first required one is then named.
      request.body = body === undefined ? {} : body;
    });
    management.addHook("preHandler", async (request) => {
      const { validationError, body } = request;
      if (!validationError) return;
      const { find } = request.routeOptions.config as Partial<ReturnType<typeof access>["config"]>;
      const isObject = typeof body === "object" && body !== null && !Array.isArray(body);
      if (validationError.validationContext === "body" && isObject) await find?.(request);
      throw validationError;
    });
    withMethodsChecked(management, (checked) => {
      register(checked);
      for (const [url, path] of [...paths]) answerOptions(checked, url, path);
    });
  });
}

/** A path of the management API, as its first route tells. */
interface ManagementPath {
  /** What it takes to read there. */
  readonly access: Access;
  readonly name: string;
  readonly description: string;
  readonly methods: Set<string>;
}

/** OPTIONS tells what a path takes, to whoever may read there (posthog-api 0, 1.3). */
function answerOptions(app: App, url: string, path: ManagementPath): void {
  app.options(
    url,
    { config: { access: path.access }, schema: { hide: true } },
    async (_request, reply) =>
      reply.header("allow", allowOf(path.methods)).send({
        name: path.name,
        description: path.description,
        renders: ["application/json"],
        parses: ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"],
      }),
  );
}

function readingAccess({ scope, on }: Access): Access {
  return { scope: scope.replace(/:write$/, ":read") as Access["scope"], on };
}

function accessOf(request: FastifyRequest): Access {
  const { access } = request.routeOptions.config as { access?: Access };
  if (!access) throw new Error(`${request.routeOptions.url} declares no access`);
  return access;
}

function mayHoldKey({ headers }: FastifyRequest): boolean {
  const length = Number(headers["content-length"] ?? 0);
  return (
    headers["transfer-encoding"] !== undefined || (length > 0 && length <= MAX_KEYED_BODY_BYTES)
  );
}

/** Makes the body of a request of its bytes; throws a {@link Refusal} where it cannot be read. */
type ReadBody = (bytes: Buffer, request: FastifyRequest, reader: JsonReader) => unknown;

/** A body as it arrived. It is read when the caller has proved to be one. */
class UnreadBody {
  readonly bytes: Buffer;
  readonly read: ReadBody;

  constructor(bytes: Buffer, read: ReadBody) {
    this.bytes = bytes;
    this.read = read;
  }
}

/** Of a body, the field that may hold the key; `undefined` where there is none. */
async function keyFieldOf(
  { bytes, read }: UnreadBody,
  request: FastifyRequest,
  reader: JsonReader,
): Promise<unknown> {
  if (bytes.length > MAX_KEYED_BODY_BYTES) return undefined;
  try {
    if (read === readJson) return await read(bytes, request, reader);
    if (read !== readFormBody) return undefined;
    const fields = readManagementForm(bytes, request.headers["content-type"]);
    const key = typeof fields === "object" ? fields.get(KEY_FIELD) : undefined;
    return key && { [KEY_FIELD]: key.toString("utf8") };
  } catch (error) {
    if (error instanceof Refusal && error.code === "unavailable") throw error;
    return undefined;
  }
}

const KEY_FIELD = "personal_api_key";
const URL_ENCODED = /^application\/x-www-form-urlencoded\b/i;
/** Decoding them takes a while; what is longer has files, and comes in parts or as JSON. */
const MAX_URL_ENCODED_BYTES = 4 * 1024 * 1024;
const FORM_TYPES = /^(?:multipart\/form-data|application\/x-www-form-urlencoded)\b/i;

function readJsonBodies(app: App): void {
  const options = { parseAs: "buffer", bodyLimit: MAX_BODY_BYTES } as const;
  const reads = (type: string | RegExp, read: ReadBody) =>
    app.addContentTypeParser(
      type,
      options,
      async (_request: FastifyRequest, bytes: Buffer) => new UnreadBody(bytes, read),
    );
  app.removeAllContentTypeParsers();
  reads(/^application\/(?:[\w.-]+\+)?json\b/i, readJson);
  reads(FORM_TYPES, readFormBody);
  reads("*", refuseMediaType);
}

function refuseMediaType(bytes: Buffer, request: FastifyRequest): undefined {
  if (bytes.length === 0) return undefined;
  const type = request.headers["content-type"] ?? "";
  throw new Refusal("unsupported_media_type", `Unsupported media type "${type}" in request.`);
}

/** Forms are read as the framework of PostHog's API reads them (posthog-api 0). */
async function readFormBody(
  bytes: Buffer,
  request: FastifyRequest,
  reader: JsonReader,
): Promise<unknown> {
  if (bytes.length === 0) return undefined;
  const contentType = request.headers["content-type"];
  if (URL_ENCODED.test(contentType ?? "") && bytes.length > MAX_URL_ENCODED_BYTES) {
    throw new Refusal(
      "request_too_large",
      `Request too large: a url-encoded form has no more than ${MAX_URL_ENCODED_BYTES} bytes.`,
    );
  }
  const { config, schema } = request.routeOptions;
  const {
    bodyOfForm = (fields: ReadonlyMap<string, Buffer>) => readFields(fields, schema?.body, reader),
  } = config as Partial<ReturnType<typeof takesForms>>;
  try {
    const fields = readManagementForm(bytes, contentType);
    // JSON whose sender forgot to say what it is comes as a form from many clients.
    if (fields === "no form") return refuseMediaType(bytes, request);
    if (fields) return await bodyOfForm(fields, () => readFormFiles(bytes, contentType), reader);
  } catch (error) {
    if (error instanceof Refusal) throw error;
  }
  throw new Refusal("parse_error", "Multipart form parse error");
}

async function readJson(bytes: Buffer, _: FastifyRequest, reader: JsonReader): Promise<unknown> {
  if (bytes.length === 0) return undefined;
  try {
    return await reader.ofBytes(bytes);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    const reason = error instanceof Error ? error.message : "unreadable";
    throw new Refusal("parse_error", `JSON parse error - ${reason}`);
  }
}
