import type { Usage } from "../../contract/event.ts";
import { asRecord } from "../wire/loose-record.ts";
import { countOf } from "../wire/token-count.ts";

/** Token counts of any version's finish part; what is missing counts as none, since a finished answer must not fail. */
export function readUsage(usage: unknown): Usage {
  const { inputTokens, outputTokens, cachedInputTokens } = asRecord(usage);
  // v2 has plain numbers; later versions have a total and what it is made of.
  const input =
    typeof inputTokens === "number" ? { total: inputTokens, cacheRead: cachedInputTokens } : asRecord(inputTokens);
  const output = typeof outputTokens === "number" ? outputTokens : asRecord(outputTokens).total;
  const cacheRead = countOf(input.cacheRead);
  const cacheWrite = countOf(input.cacheWrite);
  return {
    input_tokens: countOf(input.total) ?? 0,
    output_tokens: countOf(output) ?? 0,
    ...(cacheRead === undefined ? {} : { cache_read_tokens: cacheRead }),
    ...(cacheWrite === undefined ? {} : { cache_creation_tokens: cacheWrite }),
  };
}
