import { z } from "zod";
import { Duration } from "./duration.ts";
import { written } from "./field-words.ts";
import { nonnegative, positive } from "./whole-number.ts";

const seconds = { error: "write a number of seconds above 0" };

const limits = {
  max_tokens: written(
    "--max-tokens <n>",
    positive
      .optional()
      .describe("tokens of the whole session, input and output")
      .meta({ examples: [10_000] }),
  ),
  max_duration: written(
    "-d, --max-duration <time>",
    Duration.refine((ms) => ms > 0, { error: "write a duration longer than zero, like 30s" })
      .optional()
      .describe("time for the turn, such as 30s, 5m, 1h30m")
      .meta({ examples: ["30s"] }),
  ),
  max_tool_calls: written("--max-tool-calls <n>", nonnegative.optional().describe("tool calls of the session")),
  max_duration_secs: z
    .number(seconds)
    .positive(seconds)
    .max(Number.MAX_SAFE_INTEGER / 1_000, seconds)
    .transform((secs) => Math.max(1, Math.round(secs * 1_000)))
    .optional()
    .describe("the same in seconds"),
  max_duration_ms: positive.optional().describe("the same in milliseconds"),
};

const NAMES = "max_tokens, max_tool_calls, max_duration, max_duration_secs or max_duration_ms";

/** Limits of a session, every spelling of the duration accepted, milliseconds inside. */
export const BudgetLimits = z
  .strictObject(limits, {
    // A limit that is misspelt and ignored would be found missing when the bill comes.
    error: (issue) =>
      issue.code === "unrecognized_keys"
        ? `${issue.keys.join(", ")} is no limit; write ${NAMES}`
        : "write an object of limits, like {max_tokens: 10000}",
  })
  .transform(({ max_tokens, max_tool_calls, ...durations }, issues) => {
    const [first, ...others] = Object.entries(durations).filter(([, ms]) => ms !== undefined);
    const other = others.find(([, ms]) => ms !== first?.[1]);
    if (first !== undefined && other !== undefined) {
      const message = `${first[0]} and ${other[0]} say different things, so give one of them`;
      issues.addIssue({ code: "custom", path: [first[0]], message });
    }
    return {
      ...(max_tokens === undefined ? {} : { max_tokens }),
      ...(max_tool_calls === undefined ? {} : { max_tool_calls }),
      ...(first?.[1] === undefined ? {} : { max_duration_ms: first[1] }),
    };
  });
export type BudgetLimits = z.input<typeof BudgetLimits>;
