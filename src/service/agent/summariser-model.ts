import { RuntimeError } from "../../contract/error.ts";
import type { ModelClient, ModelResolver } from "../../ports/model.ts";

/** The profile that summarises unless another is named; it need not be there. */
const DEFAULT_PROFILE = "summarizer";

/**
 * The model that summarises memories: that of the profile, else the one sessions run on. Undefined when there is none,
 * or only the one that works offline: then memories are summarised by their own sentences.
 */
export async function summariserOf(
  models: ModelResolver,
  profile: string,
  { profiles }: { readonly profiles: Readonly<Record<string, unknown>> },
): Promise<ModelClient | undefined> {
  if (Object.hasOwn(profiles, profile)) return models.resolve(profile, undefined);
  if (profile !== DEFAULT_PROFILE) {
    const known = Object.keys(profiles).join(", ");
    const instead = known === "" ? "there is none" : `there are ${known}`;
    throw new RuntimeError("INVALID_PARAMS", `agent_memory.profile is "${profile}"; ${instead} under [profiles]`);
  }
  const model = await models.resolve(undefined, undefined).catch((thrown) => {
    // No model is configured: that is no reason to forget.
    if (thrown instanceof RuntimeError && thrown.code === "INVALID_PARAMS") return undefined;
    throw thrown;
  });
  return model?.provider === "offline" ? undefined : model;
}
