// A process with a server of sessions, and one that does nothing but what whoever runs a server makes it do besides a
// turn, once with and once without that. Tells its CPU when asked.

import { defaultConfig } from "@rkat/core/config/settings";
import type { EntryBody } from "@rkat/core/contract/entry";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import type { Dispatch } from "@rkat/core/runtime/dispatch";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { openRuntime } from "@rkat/node/open-runtime";
import { serveCalls } from "@rkat/server/http/calls";
import { errorAnswer, jsonAnswer } from "@rkat/server/http/http-answer";
import { openHttpServer } from "@rkat/server/http/http-server";
import { createJournal } from "@rkat/server/http/journal";
import { createOperator, type Operator } from "@rkat/server/http/operator";
import { openRestServer } from "@rkat/server/rest/serve";

const [folder = "", model = ""] = process.argv.slice(2);
const clock = createSystemClock();
const place = { host: "127.0.0.1", port: 0, allowedHosts: [], token: undefined, clock, log: () => {} };

async function serveSessions(): Promise<string> {
  // What is embedded behind turns is measured elsewhere.
  const config = { ...defaultConfig(), features: ["session-store" as const, "session-compaction" as const] };
  const runtime = await openRuntime({ config, env: process.env, model, projectRoot: folder, stateFolder: folder });
  const { url } = await openRestServer({ ...place, runtime, about: { realm: "bench" }, version: "0.0.0" });
  return url;
}

const usage = { input_tokens: 900, output_tokens: 30, cache_read_tokens: 800 };
const called = { turn_number: 0, model: "local", context_sha256: "" };
const created_at = new Date(0).toISOString();
const answer = { role: "block_assistant" as const, blocks: [], stop_reason: "end_turn" as const, created_at };
const results = { role: "tool_results" as const, results: [], created_at };
/** What a turn with one tool appends, each by itself. */
const APPENDED: readonly EntryBody[] = [
  { kind: "model_called", ...called },
  { kind: "assistant", message: answer, usage },
  { kind: "tool_results", message: results, calls: [{ name: "task_list", duration_ms: 1, counted: true }] },
  { kind: "model_called", ...called },
  { kind: "assistant", message: answer, usage },
];
const session_id = clock.newId();
const scripted = createScriptedModel([]);
const signal = new AbortController().signal;

/** A server whose turns do nothing: what is left is the request, and whatever the operator sees of the turn. */
async function serveNothing(operator: Operator | undefined): Promise<string> {
  // Each operation answers as the only one that is asked for does.
  const nothing = (async () => ({ session_id })) as unknown as Dispatch;
  const subscribe = async function* () {};
  const served = serveCalls({ dispatch: nothing, subscribe }, { clock, log: () => {}, operator });
  const dispatch = operator === undefined ? nothing : served.dispatch;
  const { address } = await openHttpServer({
    ...place,
    operator,
    answerFailure: errorAnswer,
    find: () => ({
      route: "/sessions/{session_id}/messages",
      operation: "startTurn",
      answer: async () => {
        const output = await dispatch("startTurn", { session_id, prompt: "x" });
        const work = { kind: "turn" as const, sessionId: session_id, model: scripted, tools: new Map() };
        const rest = { wantsJson: false, signal, traceparent: undefined, isCompacted: () => false };
        const watch = operator?.telemetry.watch({ ...work, ...rest });
        for (const body of APPENDED) {
          await Promise.resolve();
          watch?.appended([body]);
        }
        watch?.end({});
        return jsonAnswer(output);
      },
    }),
  });
  return `http://127.0.0.1:${address.port}`;
}

const journal = createJournal({ stream: process.stderr, form: "text", command: "bench", now: clock.now });
const operator = createOperator({ journal, clock, version: "0.0.0", stateFolder: folder });
process.on("message", () => {
  const { user, system } = process.cpuUsage();
  process.send?.({ cpuMs: (user + system) / 1_000 });
});
process.send?.({
  sessions: await serveSessions(),
  without: await serveNothing(undefined),
  watched: await serveNothing(operator),
});
