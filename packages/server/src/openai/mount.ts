import { NO_MODEL, RuntimeError } from "@rkat/core/contract/error";
import { isLoopback } from "../http/callers.ts";
import { errorAnswer, jsonAnswer } from "../http/http-answer.ts";
import { createOnce } from "../http/once.ts";
import type { AnsweredRoute, Mount, MountParts, OpenMount, RestRequest, Route } from "../http/router.ts";
import { createUiRoutes } from "../ui-stream/ui-routes.ts";
import type { UiSettings } from "../ui-stream/ui-sessions.ts";
import { createChatRoutes } from "./chat-routes.ts";
import { createConversationRoutes } from "./conversation-routes.ts";
import { openAiFailure } from "./failure.ts";
import { createResponseRoutes } from "./response-routes.ts";
import { createRetries } from "./retries.ts";
import type { OpenAiSettings, Place } from "./turn-route.ts";

type Switched<T> = T & { readonly enabled?: boolean | undefined };

/** What other clients speak, where it is served: only this machine is listened to, or the configuration says so. */
export async function loadMounts(
  { openai, ui }: { readonly openai: Switched<OpenAiSettings>; readonly ui: Switched<UiSettings> },
  host: string,
): Promise<readonly OpenMount[]> {
  const isHere = isLoopback(host);
  return [
    (openai.enabled ?? isHere) ? (parts) => mountOpenAi(openai, parts) : mountNothing,
    (ui.enabled ?? isHere) ? (parts) => mountUi(ui, parts) : mountNoUi,
  ];
}

const PREFIX = "/v1/";

const ENDPOINTS: readonly ((place: Place) => readonly Route[])[] = [
  createResponseRoutes,
  createConversationRoutes,
  createChatRoutes,
  createModelRoutes,
];

/** OpenAI's endpoints over the operations. */
export function mountOpenAi(settings: OpenAiSettings, parts: MountParts): Mount {
  const place: Place = { ...parts, settings, once: createOnce(), retries: createRetries(parts.clock) };
  return { prefix: PREFIX, answerFailure: openAiFailure, routes: ENDPOINTS.flatMap((routesOf) => routesOf(place)) };
}

/** Pages that speak with `useChat`. */
export function mountUi(settings: UiSettings, parts: MountParts): Mount {
  return { prefix: UI_PREFIX, answerFailure: errorAnswer, routes: createUiRoutes(settings, parts) };
}

const UI_PREFIX = "/ui/";

function mountNoUi(): Mount {
  const off = "chats of pages are off on this server; set enabled = true under [ui] of the configuration";
  return { prefix: UI_PREFIX, answerFailure: () => errorAnswer(new RuntimeError("METHOD_NOT_FOUND", off)), routes: [] };
}

/** Answers with the reason why the endpoints are off. */
function mountNothing(): Mount {
  const off = "OpenAI's endpoints are off on this server; set enabled = true under [openai] of the configuration";
  return { prefix: PREFIX, answerFailure: () => openAiFailure(new RuntimeError("METHOD_NOT_FOUND", off)), routes: [] };
}

/** `GET /v1/models` and one of them, as the catalogue has them. */
function createModelRoutes(): readonly AnsweredRoute[] {
  return [
    {
      method: "GET",
      path: "/v1/models",
      scope: "read",
      serve: async (request) => jsonAnswer({ object: "list", data: await modelsFor(request) }),
    },
    {
      method: "GET",
      path: "/v1/models/{model}",
      scope: "read",
      serve: async (request) => {
        const { model = "" } = request.params;
        const found = (await modelsFor(request)).find(({ id }) => id === model);
        if (found !== undefined) return jsonAnswer(found);
        const message = `there is no model ${JSON.stringify(model.slice(0, 200))} here`;
        throw new RuntimeError("METHOD_NOT_FOUND", message, { details: NO_MODEL });
      },
    },
  ];
}

async function modelsFor({ runtime }: RestRequest) {
  const { providers } = await runtime.dispatch("readModels", {});
  return providers.flatMap(({ provider, models }) =>
    // The creation time of a model is unknown.
    models.map(({ id }) => ({ id, object: "model", created: 0, owned_by: provider })),
  );
}
