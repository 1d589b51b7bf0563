import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AssistantBlock, Message } from "@rkat/core/contract/message";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "@rkat/core/create-runtime";
import type { ModelClient, ModelRequest } from "@rkat/core/ports/model";
import type { Tool } from "@rkat/core/ports/tool";
import { createOfflineModel } from "@rkat/core/providers/offline/offline";
import { createReplayClock, type ReplayClock } from "@rkat/core/replay/replay-background";
import { writeRecordedLog } from "@rkat/core/replay/replay-script";
import { estimateTokens, toolTokens } from "@rkat/core/turn/tokens";

/** What a scripted model does next, knowing what its tools have just given. */
type Step = (results: readonly string[]) => { readonly say?: string; readonly calls?: readonly Call[] };

export interface Call {
  readonly name: string;
  readonly args: Record<string, unknown>;
}

/** A turn: after a pause somebody writes, and the model takes these steps, the last without a call. */
export interface ScriptedTurn {
  readonly pauseMs: number;
  readonly prompt: string;
  readonly steps: readonly Step[];
}

export interface Recording {
  readonly name: string;
  readonly provider: string;
  readonly model: string;
  readonly systemPrompt: string;
  readonly startedAt: string;
  readonly tools: readonly Tool[];
  readonly turns: readonly ScriptedTurn[];
  /** How the recorded session itself is compacted; without it, not at all. */
  readonly compaction?: RuntimeOptions["compaction"];
  readonly probes?: readonly { readonly query: string; readonly expects: string }[];
}

const SECOND_MS = 1_000;
/** How fast the scripted models read and write. */
const WRITE_MS_PER_TOKEN = 18;
const READ_MS_PER_TOKEN = 0.05;
const TOOL_MS = 900;

/** Runs a scripted session with real tools in a real runtime, and writes its log to a folder. */
export async function record(recording: Recording, folder: string): Promise<{ bytes: number; calls: number }> {
  const clock = createReplayClock(Date.parse(recording.startedAt));
  const store = createInMemoryStore({ now: clock.now });
  const model = createRecordedModel(recording, clock);
  const runtime = createRuntime({
    model,
    store,
    clock,
    env: {},
    toolPreset: "none",
    tools: recording.tools.map((tool) => slowly(tool, clock)),
    ...(recording.compaction === undefined ? {} : { compaction: recording.compaction }),
  });
  const { session_id } = await runtime.dispatch("createSession", {
    initial_turn: "deferred",
    system_prompt: recording.systemPrompt,
    max_turns: 1_000,
  });
  for (const turn of recording.turns) {
    clock.moveTo(clock.now() + turn.pauseMs);
    model.open(turn);
    await runtime.dispatch("startTurn", { session_id, prompt: turn.prompt });
  }
  await runtime.close();
  const text = writeRecordedLog(await store.log.read(session_id, 1, Number.MAX_SAFE_INTEGER));
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${recording.name}.jsonl`), text);
  if (recording.probes !== undefined) {
    writeFileSync(join(folder, `${recording.name}.probes.json`), `${JSON.stringify(recording.probes, undefined, 2)}\n`);
  }
  return { bytes: Buffer.byteLength(text), calls: model.calls() };
}

function slowly(tool: Tool, clock: ReplayClock): Tool {
  return {
    ...tool,
    execute: async (args, context) => {
      const output = await tool.execute(args, context);
      clock.moveTo(clock.now() + TOOL_MS);
      return output;
    },
  };
}

interface RecordedModel extends ModelClient {
  open(turn: ScriptedTurn): void;
  calls(): number;
}

function createRecordedModel({ provider, model }: Recording, clock: ReplayClock): RecordedModel {
  const offline = createOfflineModel();
  let turn: ScriptedTurn | undefined;
  let step = 0;
  let calls = 0;
  return {
    provider,
    modelId: model,
    contextWindow: undefined,
    open: (opened) => {
      turn = opened;
      step = 0;
    },
    calls: () => calls,
    async *stream(request, signal) {
      const last = request.messages.at(-1);
      if (last?.role === "user" && last.content !== turn?.prompt) {
        yield* offline.stream(request, signal);
        return;
      }
      const { say = "", calls: asked = [] } = turn?.steps[step]?.(resultsIn(last)) ?? {};
      step += 1;
      calls += 1;
      const blocks: AssistantBlock[] = [
        ...(say === "" ? [] : [{ block_type: "text" as const, data: { text: say } }]),
        ...asked.map(({ name, args }, at) => {
          return { block_type: "tool_use" as const, data: { id: `call_${calls}_${at + 1}`, name, args } };
        }),
      ];
      for (const block of blocks) yield { type: "block", block };
      const usage = usageOf(request, blocks);
      clock.moveTo(
        clock.now() +
          Math.round(SECOND_MS + usage.input_tokens * READ_MS_PER_TOKEN + usage.output_tokens * WRITE_MS_PER_TOKEN),
      );
      yield { type: "finish", stopReason: asked.length > 0 ? "tool_use" : "end_turn", usage };
    },
  };
}

function usageOf({ messages, tools }: ModelRequest, blocks: readonly AssistantBlock[]) {
  const output_tokens = Math.ceil(Buffer.byteLength(JSON.stringify(blocks)) / 4);
  return { input_tokens: estimateTokens(messages) + toolTokens(tools), output_tokens };
}

function resultsIn(message: Message | undefined): readonly string[] {
  if (message?.role !== "tool_results") return [];
  return message.results.map(({ content }) => (typeof content === "string" ? content : JSON.stringify(content)));
}
