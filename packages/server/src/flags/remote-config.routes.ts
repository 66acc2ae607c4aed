import { encodeJson } from "@hedgerow/core/exact-json";
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { Project } from "../accounts/account-store.ts";
import type { App } from "../http/app.ts";
import { DEFINITIONS_SECURITY } from "../http/public-api.ts";
import type { CompiledFlags } from "./compiled-flags.ts";
import { type PayloadSeal, payloadOf } from "./encrypted-payloads.ts";

/**
 * The payload of a remote configuration flag, by key or id (posthog-api 4.5): part of the public
 * API, for holders of a personal key or the project's secret key. The answer is the stored payload
 * itself (decrypted), `null` when there is none; 404 without a body for anything but such a flag that is on.
 */
export function remoteConfigRoutes(
  app: App,
  {
    authenticateForDefinitions,
    compiledFlags,
    seal,
  }: {
    authenticateForDefinitions: (request: FastifyRequest) => Promise<Project>;
    compiledFlags: Pick<CompiledFlags, "get">;
    seal: Pick<PayloadSeal, "open">;
  },
): void {
  app.get(
    "/api/projects/:project_id/feature_flags/:id/remote_config",
    {
      schema: {
        tags: ["feature_flags"],
        summary: "The payload of a remote configuration flag",
        security: DEFINITIONS_SECURITY,
        params: Type.Object({ project_id: Type.String(), id: Type.String() }),
      },
    },
    async (request, reply) => {
      const project = await authenticateForDefinitions(request);
      const { definitions } = await compiledFlags.get(project.id);
      const { id } = request.params;
      const flag =
        definitions.flags.find(({ key }) => key === id) ??
        definitions.flags.find((flag) => String(flag.id) === id);
      if (!flag?.isRemoteConfiguration || !flag.active) return reply.code(404).send();
      const payload = payloadOf(project.id, flag, { value: "true", seal });
      return reply.type("application/json; charset=utf-8").send(encodeJson(payload));
    },
  );
}
