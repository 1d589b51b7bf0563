import type { Entry, EntryBody } from "../contract/entry.ts";
import { messageOf, RuntimeError } from "../contract/error.ts";
import type { Usage } from "../contract/event.ts";
import type { ModelPrices } from "../contract/money.ts";
import type { Figures, ReplayMark, SummariesBy } from "../contract/wire/simulation.ts";
import type { Clock } from "../ports/clock.ts";
import type { ModelClient } from "../ports/model.ts";
import type { EventLog } from "../ports/store.ts";
import type { Tool } from "../ports/tool.ts";
import { isSaid, type Probe } from "../runtime/probes.ts";
import type { Runtime } from "../runtime/runtime-calls.ts";
import { assembleContext } from "../state/context.ts";
import { foldSession } from "../state/whole-state.ts";
import { addUsage, NO_USAGE } from "../turn/cost.ts";
import { type BackgroundTurns, createBackgroundTurns } from "./replay-background.ts";
import { createReplayClock, type ReplayClock } from "./replay-clock.ts";
import { createReplayModel, type ReplayModel } from "./replay-model.ts";
import type { RecordedTurn, ReplayScript, ReplayStep } from "./replay-script.ts";

/** A runtime for a replay, and the log it writes. */
interface ReplayRuntime {
  readonly runtime: Pick<Runtime, "dispatch" | "close">;
  readonly log: Pick<EventLog, "read">;
}

export interface ReplayOptions {
  readonly name: string;
  readonly script: ReplayScript;
  readonly probes: readonly Probe[];
  readonly prices: ModelPrices | undefined;
  readonly contextWindow: number | undefined;
  readonly summariesBy: SummariesBy;
  readonly summariser: ModelClient;
  readonly signal: AbortSignal;
  /** Composes the runtime with the policy under test. */
  compose(parts: {
    readonly model: ModelClient;
    readonly clock: Clock;
    readonly tools: readonly Tool[];
    /** Called with every entry once it is in the log. */
    appended(body: EntryBody): void;
  }): ReplayRuntime;
}

/** The result of a replay. */
export interface Replayed {
  readonly calls: ReplayModel["calls"];
  readonly summaryUsage: Usage;
  readonly summaryCalls: number;
  readonly marks: readonly ReplayMark[];
  readonly entries: readonly Entry[];
  readonly probes: Figures["probes"];
}

/** Replays a recorded log in a real runtime, with its real turns, tools, compactions, receipts and memory. */
export async function replayLog(options: ReplayOptions): Promise<Replayed> {
  const { script, signal } = options;
  // Loaded before the replay: loading takes time that the recording does not know.
  await Promise.all([import("../compaction/run-compaction.ts"), import("../compaction/published.ts")]);
  const clock = createReplayClock(script.startedAtMs);
  const background = createBackgroundTurns(clock);
  const model = createReplayModel({ ...options, clock, background });
  const tools = toolsOf(script, { model, clock, background });
  const { runtime, log } = options.compose({ model, clock, tools, appended: background.appended });
  try {
    const { session_id } = await runtime.dispatch("createSession", {
      initial_turn: "deferred",
      max_turns: script.calls + SPARE_CALLS,
      tool_filter: { Allow: toolsAllowed(script) },
      ...(script.systemPrompt === undefined ? {} : { system_prompt: script.systemPrompt }),
      ...(script.maxTokens === undefined ? {} : { max_tokens: script.maxTokens }),
    });
    for (const [index, step] of script.steps.entries()) {
      if (signal.aborted) throw stopped();
      await takeStep({ ...options, runtime, log, clock, background, model, session_id }, step, index);
    }
    const entries = await log.read(session_id, 1, ENTRIES_MAX);
    return {
      calls: model.calls,
      summaryUsage: model.summaryCalls.map(({ usage }) => usage).reduce(addUsage, NO_USAGE),
      summaryCalls: model.summaryCalls.length,
      marks: marksOf(entries),
      entries,
      probes: await askProbes(options, runtime, { session_id, entries }),
    };
  } finally {
    await runtime.close();
  }
}

/** The runtime's own tool: trimmed output must stay readable. */
const RECALL_OUTPUT = "recall_output";

/** As in any session, a conversation without tools has no tool to read their output. */
function toolsAllowed({ tools }: ReplayScript): string[] {
  return tools.length === 0 ? [] : [...tools, RECALL_OUTPUT];
}

/** An interrupted turn makes one more call than it has answers. */
const SPARE_CALLS = 2;
const ENTRIES_MAX = Number.MAX_SAFE_INTEGER;

function stopped(): RuntimeError {
  return new RuntimeError("REQUEST_CANCELLED", "the simulation was stopped");
}

interface Replaying extends ReplayOptions, ReplayRuntime {
  readonly clock: ReplayClock;
  readonly background: BackgroundTurns;
  readonly model: ReplayModel;
  readonly session_id: string;
}

async function takeStep(replaying: Replaying, step: ReplayStep, index: number): Promise<void> {
  const { runtime, session_id, log } = replaying;
  switch (step.kind) {
    case "turn":
      return runRecorded(replaying, step.turn, index);
    case "notice":
      await rest(replaying, step.atMs);
      await runtime.dispatch("injectContext", { session_id, text: step.text, source: step.source });
      return;
    case "pin": {
      await rest(replaying, step.atMs);
      const { transcript } = foldSession(session_id, await log.read(session_id, 1, ENTRIES_MAX));
      const seq = transcript.filter(({ message }) => message.role !== "system")[step.index]?.seq;
      if (seq === undefined) return;
      await runtime.dispatch(step.pinned ? "pinMessage" : "unpinMessage", { session_id, seq });
      return;
    }
  }
}

/** Idle work of a session begins shortly after its turn. */
const REST_MS = 1_500;

/** Advances the time between turns. */
async function rest({ clock, background }: Replaying, untilMs: number): Promise<void> {
  clock.moveTo(Math.min(untilMs, clock.now() + REST_MS));
  await background.begin();
  clock.moveTo(untilMs);
  await background.settle();
}

async function runRecorded(replaying: Replaying, turn: RecordedTurn, index: number): Promise<void> {
  const { runtime, model, session_id, signal, name } = replaying;
  const { prompt, instructions } = turn;
  await rest(replaying, turn.atMs);
  model.open(turn);
  const more = instructions.length === 0 ? {} : { additional_instructions: instructions };
  let problem = "the turn ended early";
  try {
    await runtime.dispatch("startTurn", { session_id, prompt, ...more }, { signal });
  } catch (thrown) {
    problem = messageOf(thrown);
  }
  if (signal.aborted) throw stopped();
  // An interrupted or failed turn has no answer left and ends as recorded.
  if (model.left === 0) return;
  throw new RuntimeError("AGENT_ERROR", `${name}: its replay broke off at step ${index + 1}: ${problem}`);
}

/** The called tools with their recorded results. */
function toolsOf(
  { tools }: ReplayScript,
  { model, clock, background }: Pick<Replaying, "model" | "clock" | "background">,
): Tool[] {
  // The recorded result named references of the recorded context; the replay has its own.
  const own = tools.filter((name) => name !== RECALL_OUTPUT);
  return own.map((name) => ({
    name,
    description: "gives what it gave when the session was recorded",
    inputSchema: { type: "object" },
    execute: async (_, { toolUseId }) => {
      const { results } = model.answer ?? {};
      if (results !== undefined) clock.moveTo(results.atMs);
      await background.settle();
      const result = results?.byId.get(toolUseId);
      if (result === undefined) return { content: "nothing was recorded of this call", isError: true };
      return { content: result.content, isError: result.is_error };
    },
  }));
}

function marksOf(entries: readonly Entry[]): readonly ReplayMark[] {
  const marks: ReplayMark[] = [];
  let call = 0;
  for (const { body } of entries) {
    if (body.kind === "assistant") call += 1;
    if (body.kind === "compacted") marks.push({ call, kind: isEviction(body) ? "eviction" : "compaction" });
    if (body.kind === "compaction_failed") marks.push({ call, kind: "failed" });
  }
  return marks;
}

const EVICTION = "eviction";

/** Tool output trimmed to references, without a summary. */
export function isEviction({ strategy }: { readonly strategy: string }): boolean {
  return strategy === EVICTION;
}

const HITS_LOOKED_AT = 5;

async function askProbes(
  { probes, signal }: ReplayOptions,
  { dispatch }: Pick<Runtime, "dispatch">,
  { session_id, entries }: { readonly session_id: string; readonly entries: readonly Entry[] },
): Promise<Replayed["probes"]> {
  const shown = assembleContext(foldSession(session_id, entries));
  const left = probes.filter(({ expects }) => !isSaid(shown, expects));
  let found = 0;
  for (const { query, expects } of left) {
    if (signal.aborted) throw stopped();
    const input = { query, session_id, limit: HITS_LOOKED_AT };
    const { results } = await dispatch("searchMemory", input, { signal });
    if (results.some(({ content }) => content.includes(expects))) found += 1;
  }
  return { total: probes.length, in_context: probes.length - left.length, asked: left.length, found };
}
