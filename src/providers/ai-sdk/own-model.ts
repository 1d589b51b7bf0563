import type { ModelClient, ModelResolver } from "../../ports/model.ts";
import { createAiSdkModel } from "../ai-sdk.ts";
import type { AiSdkModel } from "./dialect.ts";

/** A model that was handed in as code; undefined for a name, or for none. */
export function ownModelOf(given: string | AiSdkModel | ModelClient | undefined): ModelClient | undefined {
  if (given === undefined || typeof given === "string") return undefined;
  return "stream" in given ? given : createAiSdkModel(given);
}

/** The model that was handed in serves whenever no other is named, also for a session resumed by its name. */
export function preferOwn(own: ModelClient | undefined, others: ModelResolver): ModelResolver {
  if (own === undefined) return others;
  return {
    resolve: async (model, provider) => {
      const isOwn = (model ?? own.modelId) === own.modelId && (provider ?? own.provider) === own.provider;
      return isOwn ? own : others.resolve(model, provider);
    },
  };
}
