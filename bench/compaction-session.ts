import type { Message } from "@rkat/core/contract/message";
import { assistantText, contentText } from "@rkat/core/turn/tokens";
import { createRuntime, createScriptedModel, type ModelRequest } from "@rkat/node";
import { corpusTurns, SYSTEM_PROMPT, tileHistory } from "./compaction-history.ts";
import { cpuMs } from "./compaction-stage.ts";
import { median } from "./report.ts";

const TURNS = 2_000;
const EARLY_TURN = 100;
/** So low that several compactions lie in a window, and one more or less does not decide what a turn takes. */
const THRESHOLD_TOKENS = 3_000;
const WARM_UP_TURNS = 300;
const ROUNDS = 3;

interface Window {
  readonly from: number;
  readonly to: number;
}

export interface TurnsReading extends Window {
  /** Of a turn, those that compacted among them. */
  readonly cpuMs: number;
  readonly compactions: number;
  /** Medians of the turns that did not compact, and of those that did. */
  readonly plainMs: number;
  readonly compactingMs: number;
}

/** What a turn takes early and late in a session that compacts, each figure the median of some sessions. */
export async function measureSessions(): Promise<readonly TurnsReading[]> {
  const turns = turnsOf(tileHistory({ turns: TURNS }).messages).slice(0, TURNS);
  // Every conversation of the corpus lies in a window once, so that both are about the same.
  const length = corpusTurns();
  const windows = [EARLY_TURN, TURNS - length].map((from) => ({ from, to: from + length }));
  await holdSession(turns.slice(0, WARM_UP_TURNS), []);
  const rounds: (readonly TurnsReading[])[] = [];
  for (let round = 0; round < ROUNDS; round += 1) rounds.push(await holdSession(turns, windows));
  return windows.map(({ from, to }, at) => {
    const middle = (figure: keyof TurnsReading): number =>
      median(rounds.map((readings) => readings[at]?.[figure] ?? Number.NaN));
    return {
      from,
      to,
      cpuMs: middle("cpuMs"),
      compactions: middle("compactions"),
      plainMs: middle("plainMs"),
      compactingMs: middle("compactingMs"),
    };
  });
}

/** Holds a session of turns of the corpus in a runtime as a program would have it. */
async function holdSession(
  turns: readonly ScriptedTurn[],
  windows: readonly Window[],
): Promise<readonly TurnsReading[]> {
  const compacted = new Set<number>();
  let now = 0;
  let step = 0;
  const model = createScriptedModel((request) => {
    if (isSummaryCall(request)) return { text: summaryOf(request) };
    const answer = turns[now]?.answers[step];
    step += 1;
    return { text: answer?.text ?? "Done.", calls: answer?.calls ?? [] };
  });
  const results = new Map(turns.flatMap(({ results: own }) => [...own]));
  const runtime = createRuntime({
    model,
    env: {},
    systemPrompt: SYSTEM_PROMPT,
    tools: toolNames(turns).map((name) => ({
      name,
      description: `Does ${name}.`,
      inputSchema: {},
      execute: (args) => results.get(JSON.stringify(args)) ?? "",
    })),
    compaction: {
      autoCompactThreshold: THRESHOLD_TOKENS,
      maxSummaryTokens: SUMMARY_TOKENS_MAX,
      afterCompaction: () => {
        compacted.add(now);
      },
    },
  });
  const taken: number[] = [];
  const session = await runtime.createSession("Hello.");
  for (; now < turns.length; now += 1) {
    step = 0;
    const startedMs = cpuMs();
    await session.turn(turns[now]?.prompt ?? "");
    taken.push(cpuMs() - startedMs);
  }
  await runtime.close();
  return windows.map((window) => readWindow(window, taken, compacted));
}

function readWindow({ from, to }: Window, taken: readonly number[], compacted: ReadonlySet<number>): TurnsReading {
  const turns = taken.slice(from, to).map((ms, at) => ({ ms, isCompacting: compacted.has(from + at) }));
  const msOf = (isCompacting: boolean): number[] =>
    turns.filter((turn) => turn.isCompacting === isCompacting).map(({ ms }) => ms);
  return {
    from,
    to,
    cpuMs: turns.reduce((sum, { ms }) => sum + ms, 0) / turns.length,
    compactions: msOf(true).length,
    plainMs: median(msOf(false)),
    compactingMs: median(msOf(true)),
  };
}

interface ScriptedTurn {
  readonly prompt: string;
  readonly answers: { text: string; calls: { name: string; args: Record<string, unknown> }[] }[];
  /** What its tools answered, by their arguments. */
  readonly results: Map<string, string>;
}

function turnsOf(messages: readonly Message[]): ScriptedTurn[] {
  const turns: ScriptedTurn[] = [];
  const args = new Map<string, string>();
  for (const message of messages) {
    if (message.role === "user") turns.push({ prompt: contentText(message.content), answers: [], results: new Map() });
    if (message.role === "block_assistant") {
      const calls = message.blocks.flatMap((block) => (block.block_type === "tool_use" ? [block.data] : []));
      for (const call of calls) args.set(call.id, JSON.stringify(call.args));
      turns.at(-1)?.answers.push({
        text: assistantText(message),
        calls: calls.map((call) => ({ name: call.name, args: call.args })),
      });
    }
    if (message.role !== "tool_results") continue;
    for (const { tool_use_id, content } of message.results)
      turns.at(-1)?.results.set(args.get(tool_use_id) ?? "", contentText(content));
  }
  return turns;
}

function toolNames(turns: readonly ScriptedTurn[]): string[] {
  return [...new Set(turns.flatMap(({ answers }) => answers.flatMap(({ calls }) => calls.map(({ name }) => name))))];
}

function isSummaryCall({ messages }: ModelRequest): boolean {
  const last = messages.at(-1);
  return last?.role === "user" && contentText(last.content).startsWith("You are performing a CONTEXT COMPACTION");
}

const SUMMARY_TOKENS_MAX = 500;
const SUMMARY_CHARS_MAX = 1_500;

/** The newest things users said, word for word: nothing in it is invented, and it is as long every time. */
function summaryOf({ messages }: ModelRequest): string {
  const said = messages
    .slice(0, -1)
    .flatMap((message) => (message.role === "user" && message.compaction_id === undefined ? [message.content] : []))
    .map((content) => `- ${contentText(content)}`);
  let first = said.length;
  for (let left = SUMMARY_CHARS_MAX; first > 0; first -= 1) {
    left -= said[first - 1]?.length ?? 0;
    if (left < 0) break;
  }
  return said.slice(first).join("\n");
}
