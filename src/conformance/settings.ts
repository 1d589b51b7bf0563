import type { Capability } from "../contract/capability.ts";
import { MODELS } from "./model/replies.ts";

/** The configuration the scenarios need, as a file of TOML. */
export function conformanceToml(modelUrl: string, features: readonly Capability[]): string {
  const models = Object.keys(MODELS).map(
    (name) => `[self_hosted.models.${name}]\nserver = "conformance"\ncontext_window = 100000\n`,
  );
  return [
    `features = ${JSON.stringify(features)}\n`,
    '[agent]\nmodel = "conformance-summary"\n',
    '[retry]\nmax_retries = 2\ninitial_delay = "1ms"\nmax_delay = "5ms"\n',
    // What is found must not depend on what is installed, nor on what was told to the server before.
    '[memory]\nembedder = "hashing"\nscope = "session"\n',
    "[agent_memory]\nimmediate_window = 1\nrecent_window = 8\n",
    // Set where it is there only: settings of a capability that is absent are refused.
    ...(features.includes("session-compaction") ? [COMPACTION] : []),
    `[self_hosted.servers.conformance]\nbase_url = "${modelUrl}"\n`,
    ...models,
  ].join("\n");
}

const COMPACTION = "[compaction]\nrecent_turn_budget = 1\nmax_summary_tokens = 50\nmin_turns_between_compactions = 1\n";
