import type { Reply } from "./chat-wire.ts";

/** What a model of the scenarios is asked, read off a request of the chat wire. */
export interface Asked {
  readonly messages: readonly { readonly role: string; readonly text: string }[];
  /** How often exactly this was asked of the model before, counted anew after each answer that was no refusal. */
  readonly refused: number;
}

type Model = (asked: Asked) => Reply;

const USAGE = { input: 10, output: 5 };
/** How the prompt begins that asks for the summary of a context. */
const COMPACTION = "You are performing a CONTEXT COMPACTION";
/** How the prompt begins that asks for a summary of an agent's memories. */
const MEMORIES = "Summarize these memories";
const EXTRACTION = "Give the final result of this conversation now as one JSON value";

/** The models of the scenarios. What each answers follows from what it is asked, so one server serves every surface. */
export const MODELS: Readonly<Record<string, Model>> = {
  "conformance-plain": plain,
  /** Calls two tools, one of them wrongly, and goes on when it has their results. */
  "conformance-tools": ({ messages }) =>
    hasResults(messages)
      ? answer("Both tools", " have answered.")
      : {
          kind: "answer",
          calls: [
            { id: "call_task", name: "task_create", args: { subject: "Feed the heron", description: "Twice." } },
            { id: "call_none", name: "no_such_tool", args: {} },
          ],
          usage: USAGE,
        },
  /** Never stops calling. */
  "conformance-busy": ({ messages }) => ({
    kind: "answer",
    calls: [
      { id: `call_${messages.filter(({ role }) => role === "tool").length}`, name: "task_get", args: { id: "none" } },
    ],
    usage: USAGE,
  }),
  /** Each answer uses 85 tokens. */
  "conformance-costly": () => answerFor({ input: 80, output: 5 }, "That was", " expensive."),
  /** Refused twice, for two reasons, and then well. */
  "conformance-retry": (asked) => {
    if (asked.refused === 0) return refusal(429, "rate_limit_exceeded", "Too many requests");
    if (asked.refused === 1) return refusal(503, "server_overloaded", "The engine is overloaded");
    return plain(asked);
  },
  "conformance-down": () => refusal(500, "server_error", "The server had an error"),
  /** Asks for more patience than the scenario has. */
  "conformance-later": () => ({ ...refusal(429, "rate_limit_exceeded", "Come back later"), retryAfterSeconds: 60 }),
  "conformance-denied": () => refusal(401, "invalid_api_key", "Incorrect API key provided"),
  /** Says half of something. */
  "conformance-silent": () => ({ kind: "silence", text: ["Half of it"] }),
  /** Answers a request for JSON with a value that fits the schema of the scenario. */
  "conformance-json": (asked) =>
    lastText(asked.messages).startsWith(EXTRACTION) ? answer('{"bird":"heron",', '"legs":2}') : plain(asked),
  /** Answers a request for JSON with prose. */
  "conformance-prose": (asked) =>
    asked.messages.at(-1)?.role === "user" ? answer("A heron,", " I think.") : plain(asked),
  /** Summarises what it was told in one sentence of it. */
  "conformance-summary": (asked) => {
    const text = lastText(asked.messages);
    if (text.startsWith(COMPACTION)) return answer("The staging host listens on port 4711.");
    return text.startsWith(MEMORIES) ? answer("A heron stood in the pond.") : plain(asked);
  },
  /** Cannot summarise. */
  "conformance-empty": (asked) => (lastText(asked.messages).startsWith(COMPACTION) ? answer() : plain(asked)),
  /** Asked to recall, it looks for the boathouse key in memory, and says what was found. */
  "conformance-recall": ({ messages }) => {
    const text = lastText(messages);
    if (hasResults(messages)) return answer(text.includes("blue door") ? "Behind the blue door." : "I found nothing.");
    if (text.startsWith(COMPACTION)) return answer("They spoke of a key.");
    if (!text.startsWith("Recall")) return answer("Noted.");
    const args = { query: "where is the boathouse key", limit: 1 };
    return { kind: "answer", calls: [{ id: "call_recall", name: "memory_search", args }], usage: USAGE };
  },
};

function plain({ messages }: Asked): Reply {
  return answer("You said: ", lastText(messages));
}

function answer(...text: readonly string[]): Reply {
  return answerFor(USAGE, ...text);
}

function answerFor(usage: { input: number; output: number }, ...text: readonly string[]): Reply {
  return { kind: "answer", text, usage };
}

function refusal(status: number, code: string, message: string): Extract<Reply, { kind: "refusal" }> {
  return { kind: "refusal", status, code, message };
}

function hasResults(messages: Asked["messages"]): boolean {
  return messages.at(-1)?.role === "tool";
}

function lastText(messages: Asked["messages"]): string {
  return messages.at(-1)?.text ?? "";
}
