import { RuntimeError } from "../../../contract/error.ts";
import type { AgentEvent } from "../../../contract/event.ts";
import type { JsonObject, RunResult, SessionContext } from "../../../contract/session.ts";
import { requireCapability } from "../../../service/dispatch.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { createAsker, UNATTENDED } from "../ask-person.ts";
import { chooseView } from "../commands/run.ts";
import type { RunFlags } from "../commands/run-flags.ts";
import {
  judge,
  resumeSession,
  startSession,
  toolChange,
  turnChange,
  watchTurn,
  withSessionRef,
} from "../commands/start-turn.ts";
import { alignColumns, counted, createPaint, grouped, type Io, type Paint } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import type { LogLines } from "../progress.ts";
import type { PromptSource } from "./prompts.ts";

/** What a slash command works with. */
export interface Chat {
  readonly invocation: Invocation;
  readonly opened: Opened;
  readonly conversation: Conversation;
  /** Who is talked to, when it is an agent that remembers. */
  readonly agent: string | undefined;
  readonly source: PromptSource;
  readonly log: LogLines;
}

export interface SlashCommand {
  readonly takes?: string;
  readonly meaning: string;
  /** Resolves with true when the chat is to end. */
  run(chat: Chat, rest: string): Promise<boolean>;
}

/** The session that is talked in; before the first turn there is none. */
export function currentOf({ conversation }: Chat): string {
  if (conversation.sessionId !== undefined) return conversation.sessionId;
  throw new RuntimeError("INVALID_PARAMS", "nothing was said yet");
}

/** Says something about the chat itself. */
export function tell({ invocation }: Chat, text: string): false {
  invocation.io.stderr.write(`${withoutControls(text)}\n`);
  return false;
}

/** The session a chat is in, from turn to turn. */
export interface Conversation {
  /** Undefined until a new session's first turn has begun. */
  readonly sessionId: string | undefined;
  /** The model that was last asked for; undefined leaves it to the session. */
  readonly model: string | undefined;
  /** Runs a turn and shows it; without a session it makes one. Says how it went as an exit code and a sentence. */
  say(prompt: string, signal: AbortSignal): Promise<ReturnType<typeof judge>>;
  /** Goes on in another session; without an id, in a new one. */
  switchTo(sessionId: string | undefined): void;
  /** From the next turn on. */
  useModel(name: string): void;
}

export interface ChatStart {
  readonly flags: RunFlags;
  readonly outputSchema: JsonObject | undefined;
  readonly sessionId: string | undefined;
  readonly agent: AgentTalk | undefined;
  /** Asks whoever types; absent where nobody does. */
  readonly answer?: PromptSource["answer"];
}

/** The flags of a chat: with a shell or files at hand, somebody is asked before they are used. */
function askingFlags(flags: RunFlags): RunFlags {
  const hasHands = flags.tools === "workspace" || flags.tools === "full";
  return hasHands && flags.yes !== true ? { ...flags, otherwise: "ask" } : flags;
}

export function createConversation(io: Io, opened: Opened, start: ChatStart): Conversation {
  const { outputSchema, agent, answer } = start;
  const flags = start.sessionId === undefined ? askingFlags(start.flags) : start.flags;
  const attended = answer === undefined ? { unattended: UNATTENDED } : {};
  const asker = answer && createAsker(io, opened.runtime.dispatch, answer);
  // Before anybody has typed a prompt, not after.
  if (flags.compactThreshold !== undefined) requireCapability(new Set(opened.config.features), "session-compaction");
  if (flags.memory === true) requireCapability(new Set(opened.config.features), "memory-store");
  let { sessionId } = start;
  let { model } = flags;
  // What the flags change of a session that was resumed, they change once.
  let change = sessionId === undefined ? toolChange(flags) : turnChange(flags, outputSchema);
  const startTurn = async (prompt: string, signal: AbortSignal) => {
    if (sessionId !== undefined) return resumeSession(opened, { sessionId, prompt, change, signal, ...attended });
    const wanted = model === undefined ? flags : { ...flags, model };
    const introduced = (await agent?.introduce(wanted)) ?? wanted;
    return startSession(opened, { prompt, flags: introduced, outputSchema, signal, ...attended });
  };
  return {
    get sessionId() {
      return sessionId;
    },
    get model() {
      return model;
    },
    say: async (prompt, signal) => {
      const { stream, limits } = await startTurn(prompt, signal);
      const result = await watchTurn({
        stream,
        view: chooseView(io, flags, { remark }),
        complete: withSessionRef(opened),
        // Also of a turn that fails later: its session is there and can go on.
        hear: (event) => {
          asker?.hear(event);
          if (event.type !== "run_started") return;
          sessionId = event.session_id;
          change = toolChange(flags);
        },
      });
      await agent?.keep(prompt, result);
      return judge(result, limits);
    },
    switchTo: (id) => {
      sessionId = id;
      change = toolChange(flags);
      model = undefined;
    },
    useModel: (name) => {
      model = name;
      change = { ...change, model: name };
    },
  };
}

/** What a chat says of a compaction, which changes what the model knows of the talk. */
function remark(event: AgentEvent): string | undefined {
  if (event.type !== "compaction_completed") return undefined;
  const { messages_before, messages_after } = event;
  const change = `${grouped(messages_before)} → ${grouped(messages_after)} messages`;
  return `(compacted: ${change}; /receipt shows what it did, /undo brings it back)`;
}

/** The agent that a chat is with: it begins with what it remembers, and remembers what is said. */
export interface AgentTalk {
  readonly name: string;
  /** The flags of a new session, whose system prompt is what the agent is shown of its life. */
  introduce(flags: RunFlags): Promise<RunFlags>;
  /** Keeps a turn that has ended as memories: what the user said, and what the agent answered. */
  keep(prompt: string, result: RunResult): Promise<void>;
}

export function createAgentTalk({ runtime, config }: Opened, name: string): AgentTalk {
  // Before anybody has typed a prompt, not after.
  requireCapability(new Set(config.features), "session-store");
  const agent = name;
  return {
    name,
    introduce: async (flags) => {
      const { prompt } = await runtime.dispatch("readAgentContext", { agent });
      const own = flags.system ?? config.agent.system_prompt ?? "";
      return { ...flags, system: [own, prompt].filter((part) => part.trim() !== "").join("\n\n") };
    },
    keep: async (prompt, result) => {
      const { session_id } = result;
      const said = [
        ["User", prompt],
        [name, answerOf(result)],
      ] as const;
      for (const [speaker, text] of said) {
        if (text.trim() === "") continue;
        await runtime.dispatch("remember", { agent, content: `${speaker}: ${text.trim()}`, metadata: { session_id } });
      }
    },
  };
}

function answerOf({ text, structured_output }: RunResult): string {
  return structured_output === undefined ? text : JSON.stringify(structured_output);
}

const COLUMNS_DEFAULT = 80;
const COLUMNS_MIN = 20;
/** Compaction starts at 80 % of a window unless a threshold says otherwise; so its mark stands there, too. */
const BEYOND_THRESHOLD = 1.25;

interface Segment {
  readonly name: string;
  readonly glyph: string;
  readonly brush: Exclude<keyof Paint, "red">;
}

/** In the order of the bar; each glyph tells its part also without colour. */
const SEGMENTS: readonly (Segment & { readonly kind: string })[] = [
  { kind: "tools", name: "tools", glyph: "▚", brush: "dim" },
  { kind: "system", name: "system", glyph: "≡", brush: "green" },
  { kind: "summary", name: "summary", glyph: "▓", brush: "cyan" },
  { kind: "pinned", name: "pinned", glyph: "◆", brush: "yellow" },
  { kind: "expanded", name: "expanded", glyph: "▒", brush: "green" },
  { kind: "turn", name: "turns", glyph: "█", brush: "bold" },
];
const FREE = { name: "free", glyph: "·" } as const;
const MARK = "│";

type Sized = Pick<SessionContext, "parts" | "tool_tokens" | "context_window" | "auto_compact_threshold"> & {
  readonly messages: { readonly length: number };
};

/** Shows what fills a context: a bar as wide as the terminal, and its numbers. */
export function contextBar(context: Sized, { stdout, env }: Pick<Io, "stdout" | "env">): readonly string[] {
  const paint = createPaint(stdout, env);
  const cells = Math.max(COLUMNS_MIN, stdout.columns ?? COLUMNS_DEFAULT) - MARK.length;
  const filled = SEGMENTS.map((segment) => ({ ...segment, ...sizeOf(context, segment.kind) })).filter(
    ({ parts }) => parts > 0,
  );
  const used = filled.reduce((sum, { tokens }) => sum + tokens, 0);
  const scale = scaleOf(context, used);
  const bar: string[] = [];
  for (const { tokens, glyph, brush } of filled) {
    // What is there is seen, however small.
    const width = Math.max(1, Math.round((tokens / scale) * cells));
    bar.push(...Array.from({ length: width }, () => paint[brush](glyph)));
  }
  while (bar.length < cells) bar.push(paint.dim(FREE.glyph));
  const { auto_compact_threshold: threshold } = context;
  const shown = bar.slice(0, cells);
  if (threshold !== undefined)
    shown.splice(Math.min(cells, Math.round((threshold / scale) * cells)), 0, paint.red(MARK));
  return [headline(context, used), shown.join(""), ...legend(context, { filled, used, scale }, paint)];
}

function sizeOf({ parts, tool_tokens }: Sized, kind: string): { readonly tokens: number; readonly parts: number } {
  if (kind === "tools") return { tokens: tool_tokens, parts: Math.min(1, tool_tokens) };
  const those = parts.filter((part) => part.kind === kind);
  return { tokens: those.reduce((sum, { estimated_tokens }) => sum + estimated_tokens, 0), parts: those.length };
}

/** How many tokens the whole bar stands for: the window, or less of it where compaction starts far below. */
function scaleOf({ context_window, auto_compact_threshold }: Sized, used: number): number {
  const window = context_window ?? Number.POSITIVE_INFINITY;
  const reach =
    auto_compact_threshold === undefined ? window : Math.max(auto_compact_threshold, used) * BEYOND_THRESHOLD;
  const end = Math.min(window, reach);
  return Math.max(1, used, Number.isFinite(end) ? end : used);
}

function headline({ messages, context_window }: Sized, used: number): string {
  const window = context_window === undefined ? "" : ` of ${grouped(context_window)}`;
  return `${counted(messages.length, "message")}, about ${grouped(used)}${window} tokens`;
}

interface Filled {
  readonly used: number;
  readonly scale: number;
  readonly filled: readonly (Segment & { readonly kind: string; readonly tokens: number; readonly parts: number })[];
}

function legend(context: Sized, { filled, used, scale }: Filled, paint: Paint): readonly string[] {
  const { auto_compact_threshold: threshold, context_window: window } = context;
  const end = window ?? threshold ?? used;
  const seen = scale < end ? `of which the bar shows ${grouped(Math.round(scale - used))}` : "";
  const rows = [
    ...filled.map(({ name, tokens, parts, kind }) => [name, grouped(tokens), partsText(kind, parts)]),
    ...(window === undefined && threshold === undefined ? [] : [[FREE.name, grouped(Math.max(0, end - used)), seen]]),
  ];
  const width = Math.max(...rows.map(([, tokens = ""]) => tokens.length));
  const glyphs = [...filled.map(({ glyph, brush }) => paint[brush](glyph)), paint.dim(FREE.glyph)];
  const lines = alignColumns(rows.map(([name = "", tokens = "", parts = ""]) => [name, tokens.padStart(width), parts]));
  return [
    ...lines.map((line, index) => `${glyphs[index]} ${line}`),
    ...(threshold === undefined ? [] : [`${paint.red(MARK)} ${thresholdText(threshold, used)}`]),
  ];
}

function partsText(kind: string, parts: number): string {
  if (kind === "turn") return counted(parts, "turn");
  return kind === "pinned" || kind === "expanded" ? counted(parts, "part") : "";
}

function thresholdText(threshold: number, used: number): string {
  const start = `compaction starts at ${grouped(threshold)}`;
  return used < threshold ? `${start}, in about ${grouped(threshold - used)}` : `${start}, which is reached`;
}
