import { z } from "../contract/schema.ts";
import { common, flag, msOrNone, oneOf, waitOrNone } from "./values.ts";

/** OpenAI's clients. */
export const OpenAi = z.strictObject({
  enabled: flag
    .optional()
    .meta(
      common(
        "whether OpenAI's clients are served at `/v1`; without it, only where this machine alone is listened to",
        true,
      ),
    ),
  memory: oneOf(["session", "project"])
    .default("session")
    .meta(common("what sessions made there may recall: their own words, or those of the whole project", "project")),
  tools: oneOf(["none", "memory", "safe", "workspace", "full"])
    .default("none")
    .meta(common("tools of ours that such a session has where its request names none", "memory")),
});

/** Pages with the `useChat` of the AI SDK. */
export const Ui = z
  .strictObject({
    enabled: flag
      .optional()
      .meta(
        common(
          "whether pages with useChat are served at `/ui`; without it, only where this machine alone is listened to",
          true,
        ),
      ),
    memory: oneOf(["session", "project"])
      .default("session")
      .meta(common("what chats of pages may recall: their own words, or those of the whole project", "project")),
    tools: oneOf(["none", "memory", "safe", "workspace", "full"])
      .default("memory")
      .meta(common("tools of ours that a chat has where its page names none", "safe")),
    grace: waitOrNone
      .prefault("10s")
      .describe("how long a turn runs without a reader, as while its page is reloaded; disabled: to its end"),
  })
  .transform(({ grace, ...ui }) => ({ ...ui, grace_ms: msOrNone(grace) }));
