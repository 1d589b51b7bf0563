import { createInterface } from "node:readline";
import { defaultConfig } from "@rkat/core/config/settings";
import type { Message } from "@rkat/core/contract/message";
import type { ModelClient, ModelPart } from "@rkat/core/ports/model";
import { defineTool } from "@rkat/core/tools/define-tool";
import { openRuntime } from "@rkat/node/open-runtime";

/** The agent as a program: `agent.ts PLACE FAR_SIDE LEASE_MS`. It resumes turns, and runs one for each line it reads. */
const [place = "", farSide = "", leaseMs = "30000"] = process.argv.slice(2);
const ask = async (path: string, body: object, signal: AbortSignal) =>
  fetch(`${farSide}${path}`, { method: "POST", body: JSON.stringify(body), signal });

function textOf({ content }: { readonly content: unknown }): string {
  return typeof content === "string" ? content : "";
}

/** The turn's name, which is its prompt; the number of the call; and the newest result. */
function shownIn(messages: readonly Message[]) {
  const opened = messages.findLastIndex(({ role }) => role === "user");
  const own = messages.slice(opened);
  const [first] = own;
  const last = own.at(-1);
  return {
    turn: first?.role === "user" ? textOf(first) : "",
    step: own.filter(({ role }) => role === "block_assistant").length + 1,
    result: last?.role === "tool_results" ? textOf(last.results[0] ?? { content: "" }) : "",
  };
}

const model: ModelClient = {
  provider: "scripted",
  modelId: "far-side",
  contextWindow: 100_000,
  async *stream({ messages }, signal) {
    const response = await ask("/model", shownIn(messages), signal);
    let held = "";
    for await (const bytes of response.body ?? []) {
      held += Buffer.from(bytes).toString();
      const lines = held.split("\n");
      held = lines.pop() ?? "";
      for (const line of lines) yield JSON.parse(line) as ModelPart; // Written by the far side as parts.
    }
  },
};

const turnOf = new Map<string, string>();
const tool = (name: string, effects: "none" | "idempotent" | "once", path: string) =>
  defineTool({
    name,
    description: `${name}.`,
    effects,
    run: async (_input, { sessionId, effectId, signal }) => {
      const turn = turnOf.get(sessionId) ?? String((await runtime.session(sessionId).read()).title);
      return (await ask(path, { turn, key: effectId }, signal)).text();
    },
  });
const defaults = defaultConfig();
const config = {
  ...defaults,
  features: ["session-store" as const],
  store: { ...defaults.store, lease_ms: Number(leaseMs) },
};
const runtime = await openRuntime({
  config,
  env: {},
  ...(place.startsWith("postgres:") ? { store: place } : { stateFolder: place }),
  model,
  tools: [tool("look", "idempotent", "/look"), tool("pay", "once", "/pay"), tool("check", "none", "/check")],
  resumeTurns: true,
});
process.stdout.write("ready\n");
for await (const line of createInterface({ input: process.stdin })) {
  const session = await runtime.createSession();
  turnOf.set(session.id, line);
  process.stdout.write(`${JSON.stringify({ session: session.id })}\n`);
  const watch = async () => {
    for await (const { seq, event } of session.events({ after: 0 })) {
      // Every durable event is a boundary; the killer waits for one of them.
      if (seq > 0) process.stdout.write(`${JSON.stringify({ durable: event.type, seq })}\n`);
    }
  };
  watch().catch(() => {});
  session.turn(line).catch(() => {});
}
