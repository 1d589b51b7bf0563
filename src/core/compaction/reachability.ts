import { RuntimeError } from "../../contract/error.ts";

/** What a compaction can never take out of a context, in tokens. */
export interface Floor {
  readonly system: number;
  readonly tools: number;
  readonly pins: number;
  readonly summary: number;
}

/**
 * Refuses a threshold that a compacted context would still be over: it would be compacted again and again, for
 * nothing. The turns that are kept are not counted, because nobody knows them yet.
 */
export function requireReachable(threshold: number, { system, tools, pins, summary }: Floor): void {
  const sum = system + tools + pins + summary;
  if (sum < threshold) return;
  const arithmetic = `system ${system} + tools ${tools} + pins ${pins} + summary ${summary} = ${sum} tokens`;
  throw new RuntimeError(
    "COMPACTION_THRESHOLD_UNREACHABLE",
    `auto_compact_threshold: ${threshold} can never be met, because ${arithmetic} always stay, besides the recent ` +
      `turns; write more than ${sum}, or lower max_summary_tokens (${summary})`,
    { details: { threshold, system, tools, pins, tail: 0, summary, floor: sum } },
  );
}
