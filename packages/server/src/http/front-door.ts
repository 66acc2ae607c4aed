import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import { parse as parseQueryText } from "node:querystring";
import type { FastifyRequest } from "fastify";
import type { FaultLog } from "../platform/limit-faults.ts";
import { type ArrivingBodies, type ArrivingBody, tooMuchArrives } from "./arriving-bodies.ts";
import { corsHeadersOf } from "./cors.ts";
import { failureOf, JSON_TYPE, refused } from "./errors.ts";

/**
 * What a plain route is given: the body as bytes, and headers, query and peer address. A request of
 * the framework is one, too.
 */
export type PlainRequest = Pick<FastifyRequest, "body" | "headers" | "query" | "ip">;

/** JSON as text, without content where that is empty. Or, where there is much of it, as UTF-8. */
export type PlainAnswer = string | LentBytes;

/** Bytes to be sent, and whom to tell when they are not needed any more. */
export interface LentBytes {
  readonly bytes: Uint8Array;
  readonly release: () => void;
}

/** Answers a plain request; throws or rejects with a refusal or a fault. */
export type PlainHandler = (request: PlainRequest) => PlainAnswer | Promise<PlainAnswer>;

export interface PlainRoute {
  readonly handler: PlainHandler;
  /** Whether requests may wait for those of other routes: where much work hangs on each. */
  readonly isPatient: boolean;
}

/**
 * Answers the hottest routes before the framework sees them (decision record 0011). It takes only
 * what it understands whole; everything else, and everything while the server closes, goes on to the
 * framework, which has the same routes with the same handlers.
 */
export interface FrontDoor {
  /** Takes `POST` requests on a path without parameters, and on the same path with a slash behind. */
  add(path: string, route: PlainRoute): void;
  /** Takes nothing from now on; what is answered from now on ends its connection. */
  shut(): void;
  /** Makes the framework's servers, with this door in front of its listener. */
  createServer(listener: RequestListener, options: ServerOptions): Server;
}

/** The framework's options that a server is made with. */
interface ServerOptions {
  readonly http?: object;
  readonly keepAliveTimeout?: number;
  readonly requestTimeout?: number;
  readonly connectionTimeout?: number;
}

/** A front door that lets nobody in yet. */
export function createFrontDoor(options: {
  faults: FaultLog;
  /** Larger bodies are the framework's to refuse. */
  maxBodyBytes: number;
  arrivingBodies: ArrivingBodies;
}): FrontDoor {
  const { faults, maxBodyBytes, arrivingBodies } = options;
  const routes = new Map<string, PlainRoute>();
  let isShut = false;
  const arrive = createTurns(faults, () => isShut);

  // SDKs ask under few addresses. Those with a time in them come once each: hence the bound.
  const seen = new Map<string, Target | null>();

  function targetOf(url: string): Target | null {
    const known = seen.get(url);
    if (known !== undefined) return known;
    const queryAt = url.indexOf("?");
    const route = routes.get(queryAt === -1 ? url : url.slice(0, queryAt));
    const query = queryAt === -1 ? "" : url.slice(queryAt + 1);
    const target = route ? { ...route, query: Object.freeze(parseQuery(query)) } : null;
    if (url.length > MAX_SEEN_CHARS) return target;
    if (seen.size >= MAX_SEEN) seen.clear();
    seen.set(url, target);
    return target;
  }

  return {
    add(path, route) {
      routes.set(path, route);
      routes.set(`${path}/`, route);
      seen.clear();
    },

    shut() {
      isShut = true;
      routes.clear();
      seen.clear();
    },

    createServer(listener, { http = {}, keepAliveTimeout, requestTimeout, connectionTimeout }) {
      const server = createServer(http, (request, response) => {
        const target = request.method === "POST" ? targetOf(request.url ?? "") : null;
        if (target && isPlain(request, maxBodyBytes)) {
          takeIn({ request, response, target }, { arrive, arrivingBodies });
        } else listener(request, response);
      });
      if (keepAliveTimeout !== undefined) server.keepAliveTimeout = keepAliveTimeout;
      if (requestTimeout !== undefined) server.requestTimeout = requestTimeout;
      if (connectionTimeout !== undefined) server.setTimeout(connectionTimeout);
      return server;
    },
  };
}

/** Most addresses, and longest one, that are known without parsing. */
const MAX_SEEN = 500;
const MAX_SEEN_CHARS = 200;

/** What an address stands for. */
interface Target extends PlainRoute {
  readonly query: Readonly<Record<string, unknown>>;
}

/** Parses a query string; the framework's requests are parsed by the same function. */
export function parseQuery(text: string): Record<string, unknown> {
  return parseQueryText(text, "&", "=", { maxKeys: 0 });
}

/** Media types written the usual way; the framework refuses the others or finds out. */
const USUAL_MEDIA_TYPE = /^[\w.+-]+\/[\w.+-]+(?:; ?[\w-]+=[\w.-]+)*$/;

/** Whether a request says the size of its body and nothing that needs a closer look. */
function isPlain({ headers }: IncomingMessage, maxBodyBytes: number): boolean {
  const { "content-length": length, "content-type": type } = headers;
  if (length === undefined || !(Number(length) <= maxBodyBytes)) return false;
  if (headers["transfer-encoding"] !== undefined) return false;
  return type === undefined || type === "application/json" || USUAL_MEDIA_TYPE.test(type);
}

/** A request whose body is there. */
interface Arrived {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly target: Target;
  readonly body: Buffer;
}

/** Longest that answers wait for others of their turn to be found as well. */
const MAX_TURN_MS = 1;
/**
 * Time after which patient requests wait for the next turn of the event loop. What they promise is
 * worked on between turns and takes about as long again.
 */
const MAX_PATIENT_MS = 0.5;

/**
 * Answers requests in turns: those that arrive in one turn of the event loop are all worked out one
 * after the other, and then sent. The same work in a row runs from warm caches, which reading from
 * and writing to sockets in between would cool every time; that is half of its cost. Patient ones come
 * last, and only as many in a turn as take a moment: whoever arrives meanwhile overtakes the others.
 */
function createTurns(faults: FaultLog, isLast: () => boolean): (arrived: Arrived) => void {
  let waiting: Arrived[] = [];
  const patient: Arrived[] = [];
  let isTurnSet = false;

  const answerTo = (arrived: Arrived) =>
    answerOf(arrived.target.handler, new ArrivedRequest(arrived), faults);

  function give(arrived: Arrived, answer: Answer | Promise<Answer>): void {
    if (answer instanceof Promise) answer.then((one) => send(arrived, one, isLast()));
    else send(arrived, answer, isLast());
  }

  function respond(): void {
    isTurnSet = false;
    const turn = waiting;
    waiting = [];
    const answers: (Answer | Promise<Answer>)[] = [];
    let sent = 0;
    let startedMs = performance.now();
    for (const [at, arrived] of turn.entries()) {
      answers.push(answerTo(arrived));
      const nowMs = performance.now();
      if (at < turn.length - 1 && nowMs - startedMs < MAX_TURN_MS) continue;
      for (; sent <= at; sent++) {
        give(turn[sent] as Arrived, answers[sent] as Answer | Promise<Answer>);
      }
      startedMs = nowMs;
    }
    respondToPatient();
  }

  function respondToPatient(): void {
    const startedMs = performance.now();
    for (let arrived = patient.shift(); arrived; arrived = patient.shift()) {
      give(arrived, answerTo(arrived));
      if (performance.now() - startedMs > MAX_PATIENT_MS) break;
    }
    if (patient.length > 0) setTurn();
  }

  function setTurn(): void {
    if (isTurnSet) return;
    isTurnSet = true;
    setImmediate(respond);
  }

  return (arrived) => {
    (arrived.target.isPatient ? patient : waiting).push(arrived);
    setTurn();
  };
}

/** What a request is answered with; never throws or rejects. */
function answerOf(
  handler: PlainHandler,
  request: PlainRequest,
  faults: FaultLog,
): Answer | Promise<Answer> {
  const succeed = (text: PlainAnswer): Answer => ({ status: text === "" ? 204 : 200, text });
  try {
    const text = handler(request);
    return text instanceof Promise
      ? text.then(succeed, (error) => failureOf(error, faults))
      : succeed(text);
  } catch (error) {
    return failureOf(error, faults);
  }
}

/** Reads the body. A client that goes away before its body ended gets no answer. */
function takeIn(
  asked: Omit<Arrived, "body">,
  {
    arrive,
    arrivingBodies,
  }: { arrive: (arrived: Arrived) => void; arrivingBodies: ArrivingBodies },
): void {
  const { request } = asked;
  let body: Buffer = NO_BYTES;
  let chunks: Buffer[] | undefined;
  let arriving: ArrivingBody | undefined;
  let isGivenUp = false;

  function giveUp(): void {
    isGivenUp = true;
    body = NO_BYTES;
    chunks = undefined;
    send({ ...asked, body }, refused(tooMuchArrives()), false);
  }

  request.on("data", (chunk: Buffer) => {
    if (isGivenUp) return;
    if (body === NO_BYTES) {
      body = chunk;
      return;
    }
    // Most come in one piece: only others take room for longer than it takes to answer them.
    if (!arriving || !chunks) {
      chunks = [body];
      arriving = arrivingBodies.begin(giveUp);
      arriving.add(body.length);
      request.once("close", arriving.end);
    }
    chunks.push(chunk);
    arriving.add(chunk.length);
  });
  request.on("end", () => {
    arriving?.end();
    if (!isGivenUp) arrive({ ...asked, body: chunks ? Buffer.concat(chunks) : body });
  });
}

const NO_BYTES = Buffer.alloc(0);

/** Looks the peer up only when it is asked for. */
class ArrivedRequest implements PlainRequest {
  readonly body: Buffer;
  readonly headers: IncomingMessage["headers"];
  readonly query: Readonly<Record<string, unknown>>;
  readonly #raw: IncomingMessage;

  constructor({ request, target, body }: Arrived) {
    this.body = body;
    this.headers = request.headers;
    this.query = target.query;
    this.#raw = request;
  }

  get ip(): string {
    return this.#raw.socket.remoteAddress ?? "";
  }
}

interface Answer {
  readonly status: number;
  readonly text: PlainAnswer;
  readonly headers?: Readonly<Record<string, string>>;
}

function send(
  { request, response }: Arrived,
  { status, text, headers }: Answer,
  isLast: boolean,
): void {
  const byteLength = typeof text === "string" ? Buffer.byteLength(text) : text.bytes.length;
  const head: (string | number)[] =
    status === 204 ? [] : ["content-type", JSON_TYPE, "content-length", byteLength];
  for (const field of corsHeadersOf(request.headers)) head.push(field);
  if (isLast) head.push("connection", "close");
  if (headers) for (const [name, value] of Object.entries(headers)) head.push(name, value);
  response.writeHead(status, head);
  if (typeof text !== "string") {
    response.end(text.bytes, text.release);
    return;
  }
  // Node joins head and text into one string, which then is quicker to write where it is ASCII.
  response.end(text, byteLength === text.length ? "latin1" : "utf8");
}
