import type { TypeBoxTypeProvider } from "@fastify/type-provider-typebox";
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type HTTPMethods,
  LogController,
  type RawReplyDefaultExpression,
  type RawRequestDefaultExpression,
  type RawServerDefault,
} from "fastify";
import { limitFaults } from "../platform/limit-faults.ts";
import { answerUnreadable } from "./answer-unreadable.ts";
import { type ArrivingBodies, createArrivingBodies } from "./arriving-bodies.ts";
import { answerErrors, Refusal, refuseUnroutable } from "./errors.ts";
import { createFrontDoor, type FrontDoor, parseQuery } from "./front-door.ts";
import { validatorCompiler } from "./validate-body.ts";
import { serializerCompiler } from "./write-answer.ts";

/** A Fastify scope whose routes take their types from TypeBox schemas. */
export type App = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

/** Largest body on the wire; decoded sizes are bounded separately while decoding. */
export const MAX_BODY_BYTES = 20 * 1024 * 1024;

/** Time a client may take to send a request; then it is answered 408 and its connection closed. */
const RECEIVE_WITHIN_MS = 120_000;

/** An empty application: error answers, validation and path rules, no routes. */
export function createApp(options: {
  logger: FastifyBaseLogger;
  /** Most bytes of bodies that arrive at a time; 128 MiB unless given. */
  maxArrivingBytes?: number;
}): App {
  const { logger } = options;
  const faults = limitFaults(logger);
  const arrivingBodies = createArrivingBodies(options.maxArrivingBytes);
  const frontDoor = createFrontDoor({ faults, maxBodyBytes: MAX_BODY_BYTES, arrivingBodies });
  const app = Fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: RECEIVE_WITHIN_MS,
    serverFactory: frontDoor.createServer,
    routerOptions: {
      ignoreTrailingSlash: true,
      ignoreDuplicateSlashes: true,
      maxParamLength: 500,
      querystringParser: parseQuery,
    },
    frameworkErrors: refuseUnroutable,
    clientErrorHandler: answerUnreadable,
    forceCloseConnections: "idle",
    // What still comes over an open connection while the server closes is answered, and ends the
    // connection: the engines close after the server does, so nothing need be refused.
    return503OnClosing: false,
    // `/api/environments/…` is another name for `/api/projects/…` (decision 1), and `/api/person`
    // the older one for the persons of the current project (posthog-api 3.4); `plugins` and
    // `plugin_configs` are PostHog's names for transformations and their configs (decision 10).
    rewriteUrl: (request) =>
      (request.url ?? "/")
        .replace(/^\/api\/environments(?=\/|\?|$)/, "/api/projects")
        .replace(/^\/api\/person(?=\/|\?|$)/, "/api/projects/@current/persons")
        .replace(
          /^(\/api\/organizations\/[^/?]+)\/plugins(?=\/|\?|$)/,
          "$1/pipeline_transformations",
        )
        .replace(
          /^(\/api\/projects\/[^/?]+)\/plugin_configs(?=\/|\?|$)/,
          "$1/pipeline_transformation_configs",
        ),
  }).withTypeProvider<TypeBoxTypeProvider>();
  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(serializerCompiler);
  answerErrors(app as unknown as FastifyInstance, faults);
  app.decorate(FRONT_DOOR, frontDoor);
  app.decorate(ARRIVING_BODIES, arrivingBodies);
  app.addHook("preClose", (done) => {
    frontDoor.shut();
    done();
  });
  return app;
}

const FRONT_DOOR = "frontDoor";
const ARRIVING_BODIES = "arrivingBodies";

/** What stands in front of an application made by {@link createApp}. */
export function frontDoorOf(app: App): FrontDoor {
  return app.getDecorator<FrontDoor>(FRONT_DOOR);
}

/** Counts what arrives at an application made by {@link createApp}. */
export function arrivingBodiesOf(app: App): ArrivingBodies {
  return app.getDecorator<ArrivingBodies>(ARRIVING_BODIES);
}

const METHODS: readonly HTTPMethods[] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/**
 * Registers routes in a scope, then answers every other method on their paths with 405 and `Allow`
 * instead of 404 (posthog-api 0.1, decision 3).
 */
export function withMethodsChecked(app: App, register: (app: App) => void): void {
  const methodsByUrl = new Map<string, Set<string>>();
  app.addHook("onRoute", ({ url, method }) => {
    const methods = methodsByUrl.get(url) ?? new Set();
    for (const one of [method].flat()) methods.add(one);
    methodsByUrl.set(url, methods);
  });
  register(app);
  for (const [url, declared] of [...methodsByUrl]) {
    const missing = METHODS.filter((method) => !declared.has(method));
    if (missing.length === 0 || url.includes("*")) continue;
    const allow = allowOf(declared);
    app.route({
      url,
      method: missing,
      schema: { hide: true },
      config: { answersWrongMethod: true },
      exposeHeadRoute: false,
      onRequest: async (request) => {
        throw new Refusal("method_not_allowed", `Method "${request.method}" not allowed.`, {
          headers: { allow },
        });
      },
      handler: async () => {},
    });
  }
}

/** The `Allow` header of a path with the given methods. */
export function allowOf(methods: ReadonlySet<string>): string {
  return [...METHODS.filter((method) => methods.has(method)), "OPTIONS"].join(", ");
}
