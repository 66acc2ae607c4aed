import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { App } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { access, callerOf } from "../http/management-api.ts";
import type { PersonalKey } from "./account-store.ts";
import {
  CreatePersonalKeyBody,
  keyRequestOf,
  PersonalKeyRecord,
  wirePersonalKey,
} from "./personal-keys.schemas.ts";
import { createKeyByKey, type KeyDeps } from "./personal-keys.ts";

const tags = ["personal_api_keys"];

/** The caller's own keys (posthog-api 1.5). The list is a bare array. */
export function personalKeyRoutes(app: App, deps: KeyDeps): void {
  const { accounts } = deps;

  async function ownKey(request: FastifyRequest): Promise<PersonalKey> {
    const { user, key } = callerOf(request);
    const { id } = request.params as { id?: string };
    if (id === "@current") return key;
    const found = (await accounts.personalKeysOf(user.id)).find((own) => own.id === id);
    if (!found) throw new Refusal("not_found", "Not found.");
    return found;
  }

  app.get(
    "/api/personal_api_keys/@current",
    {
      ...access("any-key", "user"),
      schema: {
        tags,
        summary: "Describe the key of the request",
        response: { 200: PersonalKeyRecord },
      },
    },
    async (request) => wirePersonalKey(callerOf(request).key),
  );

  app.get(
    "/api/personal_api_keys",
    {
      ...access("user:read", "user"),
      schema: {
        tags,
        summary: "List the caller's keys",
        response: { 200: Type.Array(PersonalKeyRecord) },
      },
    },
    async (request) => {
      const keys = await accounts.personalKeysOf(callerOf(request).user.id);
      return keys.map((key) => wirePersonalKey(key));
    },
  );

  app.post(
    "/api/personal_api_keys",
    {
      ...access("user:write", "user"),
      schema: {
        tags,
        summary: "Create a key that opens no more than the key of the request",
        body: CreatePersonalKeyBody,
        response: { 201: PersonalKeyRecord },
      },
    },
    async (request, reply) => {
      const { key, value } = await createKeyByKey(
        deps,
        callerOf(request),
        keyRequestOf(request.body),
      );
      return reply.code(201).send(wirePersonalKey(key, value));
    },
  );

  app.get(
    "/api/personal_api_keys/:id",
    {
      ...access("user:read", "user"),
      schema: { tags, summary: "Retrieve a key", response: { 200: PersonalKeyRecord } },
    },
    async (request) => wirePersonalKey(await ownKey(request)),
  );

  app.delete(
    "/api/personal_api_keys/:id",
    {
      ...access("user:write", "user"),
      schema: { tags, summary: "Revoke a key", response: { 204: Type.Null() } },
    },
    async (request, reply) => {
      await accounts.deletePersonalKey((await ownKey(request)).id);
      return reply.code(204).send(null);
    },
  );
}
