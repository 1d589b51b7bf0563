import { NO_MODEL, RuntimeError } from "@rkat/core/contract/error";
import { jsonAnswer } from "../http/http-answer.ts";
import type { AnsweredRoute, RestRequest } from "../http/router.ts";

/** `GET /v1/models` and one of them, as the catalogue has them. */
export function createModelRoutes(): readonly AnsweredRoute[] {
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
