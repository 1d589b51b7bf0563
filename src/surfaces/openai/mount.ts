import { RuntimeError } from "../../contract/error.ts";
import { isLoopback } from "../wire/callers.ts";
import type { Mount, MountParts, OpenMount } from "../wire/mount.ts";
import { createOnce } from "../wire/once.ts";
import type { Route } from "../wire/router.ts";
import { createChatRoutes } from "./chat-routes.ts";
import { createConversationRoutes } from "./conversation-routes.ts";
import { openAiFailure } from "./failure.ts";
import { createModelRoutes } from "./model-routes.ts";
import { createResponseRoutes } from "./response-routes.ts";
import type { OpenAiSettings, Place } from "./turn-route.ts";

/** OpenAI's endpoints, where they are served: only this machine is listened to, or the configuration says so. */
export async function loadMounts(
  { openai }: { readonly openai: OpenAiSettings & { readonly enabled?: boolean | undefined } },
  host: string,
): Promise<readonly OpenMount[]> {
  return [(openai.enabled ?? isLoopback(host)) ? (parts) => mountOpenAi(openai, parts) : mountNothing];
}

const PREFIX = "/v1/";

/** What is served there, an endpoint a row. */
const ENDPOINTS: readonly ((place: Place) => readonly Route[])[] = [
  createResponseRoutes,
  createConversationRoutes,
  createChatRoutes,
  createModelRoutes,
];

/** OpenAI's endpoints over the operations. */
export function mountOpenAi(settings: OpenAiSettings, parts: MountParts): Mount {
  const place: Place = { ...parts, settings, once: createOnce() };
  return { prefix: PREFIX, answerFailure: openAiFailure, routes: ENDPOINTS.flatMap((routesOf) => routesOf(place)) };
}

/** Says why nothing is there. */
function mountNothing(): Mount {
  const off = "OpenAI's endpoints are off on this server; set enabled = true under [openai] of the configuration";
  return { prefix: PREFIX, answerFailure: () => openAiFailure(new RuntimeError("METHOD_NOT_FOUND", off)), routes: [] };
}
