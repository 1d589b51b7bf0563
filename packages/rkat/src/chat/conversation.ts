import { describeEvent } from "@rkat/core/contract/describe-event";
import { invalid } from "@rkat/core/contract/error";
import type { AgentEvent } from "@rkat/core/contract/event";
import type { Content, ContentBlock } from "@rkat/core/contract/message";
import type { JsonObject, RunResult } from "@rkat/core/contract/session";
import { requireCapability } from "@rkat/core/runtime/dispatch";
import { withoutControls } from "@rkat/core/text/terminal-text";
import type { View } from "../command-row.ts";
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
import { fieldsOf } from "../flags.ts";
import { alignColumns, createPaint, grouped, type Io, oneLine } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import type { LogLines } from "../progress.ts";
import type { Candidate, PromptSource } from "../prompts.ts";
import { createAsker, UNATTENDED } from "./ask-person.ts";
import type { Stage } from "./chat-stage.ts";
import type { Picker } from "./picker.ts";
import type { ChatStatus } from "./status-line.ts";

export interface Chat {
  readonly invocation: Invocation;
  readonly opened: Opened;
  readonly conversation: Conversation;
  readonly source: PromptSource;
  readonly log: LogLines;
  /** The terminal it is drawn on; absent for a pipe. */
  readonly stage: Stage | undefined;
}

export type ChatPlace = Pick<Chat, "invocation" | "opened">;

export interface SlashCommand {
  readonly takes?: string;
  readonly meaning: string;
  candidates?(chat: ChatPlace): Promise<readonly Candidate[]>;
  readonly endsChat?: true;
  run(chat: Chat, rest: string): Promise<void>;
}

/** The session of the chat; throws before the first turn. */
export function currentOf({ conversation }: Chat): string {
  if (conversation.sessionId !== undefined) return conversation.sessionId;
  throw invalid("the chat has no messages yet");
}

export function viewOf(chat: Chat): View {
  const { io } = chat.invocation;
  return { io, paint: createPaint(io.stdout, io.env), opened: chat.opened, id: currentOf(chat) };
}

export function printNote({ invocation }: Chat, text: string): void {
  invocation.io.stderr.write(`${withoutControls(text)}\n`);
}

/** Lets the user choose; without a terminal it prints the list and how to name one. */
export async function choose<T>(chat: Chat, picker: Picker<T>, how: string): Promise<T | undefined> {
  if (chat.source.pick !== undefined) return chat.source.pick(picker);
  const rows = picker.choices.map(({ label, note = "" }) => [label, note].map((cell) => oneLine(cell, CELL_CHARS_MAX)));
  if (rows.length > 0) chat.invocation.io.stdout.write(`${alignColumns(rows).join("\n")}\n`);
  printNote(chat, how);
  return undefined;
}

const CELL_CHARS_MAX = 120;

export interface Conversation {
  /** Undefined until a new session's first turn has begun. */
  readonly sessionId: string | undefined;
  /** The model that was last asked for; undefined leaves it to the session. */
  readonly model: string | undefined;
  readonly agent: string | undefined;
  /**
   * Runs a turn and shows it; without a session it creates one. Attachments follow the prompt. Returns
   * the outcome as an exit code and a sentence.
   */
  say(prompt: string, signal: AbortSignal, attached?: readonly ContentBlock[]): Promise<ReturnType<typeof judge>>;
  /** Adds a note on what the user did before the next prompt; for the model it is data, not an instruction. */
  mention(text: string): Promise<void>;
  talkTo(agent: string): void;
  /** Switches to another session; without an id, to a new one. */
  switchTo(sessionId: string | undefined): void;
  /** From the next turn on. */
  useModel(name: string): void;
  status(): Promise<ChatStatus>;
  useSkill(name: string): void;
  /** The next prompt works until it is reached. */
  useGoal(goal: Pick<RunFlags, "until" | "untilTrue">): void;
}

export interface ChatStart {
  readonly flags: RunFlags;
  readonly outputSchema: JsonObject | undefined;
  readonly sessionId: string | undefined;
  readonly agent: AgentTalk | undefined;
  /** Asks the user for approvals; absent where prompts are piped. */
  readonly answer?: PromptSource["answer"];
  /** Whether the usage of a turn is printed on its own line. */
  readonly isStaged?: boolean;
  onEvent?(event: AgentEvent): void;
}

/** The flags of a chat: calls of the shell and of patches ask first. */
function askingFlags(flags: RunFlags): RunFlags {
  const hasHands = flags.tools === "workspace" || flags.tools === "full";
  return hasHands && flags.yes !== true ? { ...flags, otherwise: "ask" } : flags;
}

export function createConversation(io: Io, opened: Opened, start: ChatStart): Conversation {
  const { outputSchema, answer } = start;
  const flags = start.sessionId === undefined ? askingFlags(start.flags) : start.flags;
  const attended = answer === undefined ? { unattended: UNATTENDED } : { hasApprover: true as const };
  const asker = answer && createAsker(io, opened.runtime.dispatch, answer);
  // Fails before the first prompt is typed, not after.
  const isCompactionAskedFor = (flags.compactThreshold ?? flags.evict ?? flags.evictAt) !== undefined;
  if (isCompactionAskedFor) requireCapability(new Set(opened.config.features), "session-compaction");
  if (flags.memory === true) requireCapability(new Set(opened.config.features), "memory-store");
  let { sessionId, agent } = start;
  let { model } = flags;
  let spent: ChatStatus["usage"];
  // Flags change a resumed session once.
  let skills: readonly object[] = [];
  let goal: Parameters<Conversation["useGoal"]>[0] = {};
  let change = sessionId === undefined ? toolChange(flags) : turnChange(flags, outputSchema);
  // Notes from before the session existed.
  let mentioned: readonly string[] = [];
  const startTurn = async (prompt: Content, signal: AbortSignal) => {
    if (sessionId !== undefined) {
      const aimed = { ...change, ...fieldsOf("startTurn", goal) };
      const loading = skills.length === 0 ? aimed : { ...aimed, skill_refs: skills };
      // Another process may run a turn of it; hooks of one turn are not kept, so such a turn cannot wait.
      const waiting = loading.hooks_override === undefined ? { when_busy: "queue", ...loading } : loading;
      return resumeSession(opened, { sessionId, prompt, change: waiting, signal, ...attended });
    }
    const named = model === undefined ? {} : { model };
    const wanted = { ...flags, ...named, ...goal, skill: [...flags.skill, ...skills] };
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
    get agent() {
      return agent?.name;
    },
    say: async (prompt, signal, attached = []) => {
      const blocks = [...mentioned.map((text) => ({ type: "text" as const, text })), ...attached];
      // The prompt comes first: a session's title is its first text.
      const content: Content = blocks.length === 0 ? prompt : [{ type: "text", text: prompt }, ...blocks];
      const { stream, limits } = await startTurn(content, signal);
      let wasAsked = false;
      const result = await watchTurn({
        stream,
        view: await chooseView(io, flags, { remark, isStaged: start.isStaged === true }),
        complete: withSessionRef(opened),
        // Also for a turn that fails later: its session exists and can be continued.
        onEvent: (event) => {
          asker?.onEvent(event);
          start.onEvent?.(event);
          if (event.type === "tool_approval_requested") wasAsked = true;
          if (event.type !== "run_started") return;
          sessionId = event.session_id;
          change = toolChange(flags);
          skills = [];
          goal = {};
          mentioned = [];
        },
      }).catch(async (thrown: unknown) => {
        // A turn that waits for approval outlives its client; this one is ended by an interrupt.
        if (wasAsked && signal.aborted && sessionId !== undefined)
          await opened.runtime.dispatch("interruptTurn", { session_id: sessionId });
        throw thrown;
      });
      spent = result.usage;
      await agent?.keep(prompt, result);
      return judge(result, limits);
    },
    status: async () => {
      const wanted = flags.yolo ? "full" : (flags.tools ?? "safe");
      const { readChatStatus, UNKNOWN } = await import("./status-line.ts");
      // If the status cannot be read, the line shows less; commands report the error.
      const known =
        sessionId === undefined ? UNKNOWN : await readChatStatus(opened, sessionId, wanted).catch(() => UNKNOWN);
      return {
        ...known,
        agent: agent?.name,
        isKept: opened.isKept,
        tools: known.tools ?? wanted,
        usage: known.usage ?? spent,
        model: model ?? known.model ?? flags.model ?? opened.config.agent.model,
      };
    },
    mention: async (text) => {
      const event = { event_type: "user_did", blocks: [{ type: "text", text }] };
      if (sessionId === undefined) mentioned = [...mentioned, text];
      else await opened.runtime.dispatch("sendExternalEvent", { session_id: sessionId, ...event });
    },
    talkTo: (name) => {
      agent = createAgentTalk(opened, name);
      sessionId = undefined;
    },
    switchTo: (id) => {
      sessionId = id;
      spent = undefined;
      change = toolChange(flags);
      model = undefined;
    },
    useSkill: (skill_name) => {
      skills = [...skills, { skill_name }];
    },
    useGoal: (given) => {
      goal = given;
    },
    useModel: (name) => {
      model = name;
      change = { ...change, model: name };
    },
  };
}

/** The chat's note on a compaction. */
function remark(event: AgentEvent): string | undefined {
  if (event.type === "context_evicted")
    return `(${describeEvent(event).text}; the model can read them again, /undo brings them back)`;
  if (event.type !== "compaction_completed") return undefined;
  const { messages_before, messages_after } = event;
  const change = `${grouped(messages_before)} → ${grouped(messages_after)} messages`;
  return `(compacted: ${change}; /receipt shows what it did, /undo brings it back)`;
}

/** The agent of a chat: new sessions begin with its memories, and turns become memories. */
export interface AgentTalk {
  readonly name: string;
  /** The flags of a new session; its system prompt is the agent's context. */
  introduce(flags: RunFlags): Promise<RunFlags>;
  /** Stores a finished turn as two memories: the prompt and the answer. */
  keep(prompt: string, result: RunResult): Promise<void>;
}

export function createAgentTalk({ runtime, config }: Opened, name: string): AgentTalk {
  // Fails before the first prompt is typed, not after.
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
