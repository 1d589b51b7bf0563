import { describeEvent } from "../../contract/describe-event.ts";
import { RuntimeError } from "../../contract/error.ts";
import type { AgentEvent } from "../../contract/event.ts";
import type { Content, ContentBlock } from "../../contract/message.ts";
import type { JsonObject, RunResult } from "../../contract/session.ts";
import { requireCapability } from "../../service/dispatch.ts";
import { withoutControls } from "../wire/terminal-text.ts";
import { createAsker, UNATTENDED } from "./ask-person.ts";
import type { Stage } from "./chat-stage.ts";
import type { View } from "./command-row.ts";
import { chooseView } from "./commands/run.ts";
import type { RunFlags } from "./commands/run-flags.ts";
import {
  judge,
  resumeSession,
  startSession,
  toolChange,
  turnChange,
  watchTurn,
  withSessionRef,
} from "./commands/start-turn.ts";
import { alignColumns, createPaint, grouped, type Io, oneLine } from "./io.ts";
import type { Opened } from "./open-runtime.ts";
import type { Invocation } from "./parts.ts";
import type { Picker } from "./picker.ts";
import type { LogLines } from "./progress.ts";
import type { Candidate, PromptSource } from "./prompts.ts";
import type { ChatStatus } from "./status-line.ts";

/** What a slash command works with. */
export interface Chat {
  readonly invocation: Invocation;
  readonly opened: Opened;
  readonly conversation: Conversation;
  readonly source: PromptSource;
  readonly log: LogLines;
  /** What it is drawn on, where it can be. */
  readonly stage: Stage | undefined;
}

/** Where a chat is, whatever is said in it. */
export type ChatPlace = Pick<Chat, "invocation" | "opened">;

export interface SlashCommand {
  readonly takes?: string;
  readonly meaning: string;
  /** What may follow it. */
  candidates?(chat: ChatPlace): Promise<readonly Candidate[]>;
  /** Resolves with true when the chat is to end. */
  run(chat: Chat, rest: string): Promise<boolean>;
}

/** The session that is talked in; before the first turn there is none. */
export function currentOf({ conversation }: Chat): string {
  if (conversation.sessionId !== undefined) return conversation.sessionId;
  throw new RuntimeError("INVALID_PARAMS", "nothing was said yet");
}

/** For views of the session that is talked in. */
export function viewOf(chat: Chat): View {
  const { io } = chat.invocation;
  return { io, paint: createPaint(io.stdout, io.env), opened: chat.opened, id: currentOf(chat) };
}

/** Says something about the chat itself. */
export function printNote({ invocation }: Chat, text: string): false {
  invocation.io.stderr.write(`${withoutControls(text)}\n`);
  return false;
}

/** Lets a person choose; where nobody can, the list is printed with how to name one. */
export async function choose<T>(chat: Chat, picker: Picker<T>, how: string): Promise<T | undefined> {
  if (chat.source.pick !== undefined) return chat.source.pick(picker);
  const rows = picker.choices.map(({ label, note = "" }) => [label, note].map((cell) => oneLine(cell, CELL_CHARS_MAX)));
  if (rows.length > 0) chat.invocation.io.stdout.write(`${alignColumns(rows).join("\n")}\n`);
  printNote(chat, how);
  return undefined;
}

const CELL_CHARS_MAX = 120;

/** The session a chat is in, from turn to turn. */
export interface Conversation {
  /** Undefined until a new session's first turn has begun. */
  readonly sessionId: string | undefined;
  /** The model that was last asked for; undefined leaves it to the session. */
  readonly model: string | undefined;
  /** Who is talked to, when it is an agent that remembers. */
  readonly agent: string | undefined;
  /**
   * Runs a turn and shows it; without a session it makes one. The model is shown what is attached after the prompt. Says
   * how it went as an exit code and a sentence.
   */
  say(prompt: string, signal: AbortSignal, attached?: readonly ContentBlock[]): Promise<ReturnType<typeof judge>>;
  /** Tells the model, before the next prompt, what the user did; it is data to it and no instruction. */
  mention(text: string): Promise<void>;
  /** Talks to an agent that remembers, in a new session. */
  talkTo(agent: string): void;
  /** Goes on in another session; without an id, in a new one. */
  switchTo(sessionId: string | undefined): void;
  /** From the next turn on. */
  useModel(name: string): void;
  /** How things stand now. */
  status(): Promise<ChatStatus>;
  /** Loads a skill before the next prompt. */
  useSkill(name: string): void;
}

export interface ChatStart {
  readonly flags: RunFlags;
  readonly outputSchema: JsonObject | undefined;
  readonly sessionId: string | undefined;
  readonly agent: AgentTalk | undefined;
  /** Asks whoever types; absent where nobody does. */
  readonly answer?: PromptSource["answer"];
  /** Whether what was used is told on a line of its own. */
  readonly isStaged?: boolean;
  /** Hears every event of its turns. */
  onEvent?(event: AgentEvent): void;
}

/** The flags of a chat: with a shell or files at hand, somebody is asked before they are used. */
function askingFlags(flags: RunFlags): RunFlags {
  const hasHands = flags.tools === "workspace" || flags.tools === "full";
  return hasHands && flags.yes !== true ? { ...flags, otherwise: "ask" } : flags;
}

export function createConversation(io: Io, opened: Opened, start: ChatStart): Conversation {
  const { outputSchema, answer } = start;
  const flags = start.sessionId === undefined ? askingFlags(start.flags) : start.flags;
  const attended = answer === undefined ? { unattended: UNATTENDED } : {};
  const asker = answer && createAsker(io, opened.runtime.dispatch, answer);
  // Before anybody has typed a prompt, not after.
  const isCompactionAskedFor = (flags.compactThreshold ?? flags.evict ?? flags.evictAt) !== undefined;
  if (isCompactionAskedFor) requireCapability(new Set(opened.config.features), "session-compaction");
  if (flags.memory === true) requireCapability(new Set(opened.config.features), "memory-store");
  let { sessionId, agent } = start;
  let { model } = flags;
  let spent: ChatStatus["usage"];
  // What the flags change of a session that was resumed, they change once.
  let skills: readonly object[] = [];
  let change = sessionId === undefined ? toolChange(flags) : turnChange(flags, outputSchema);
  // What happened before there was a session to tell it to.
  let mentioned: readonly string[] = [];
  const startTurn = async (prompt: Content, signal: AbortSignal) => {
    if (sessionId !== undefined) {
      const loading = skills.length === 0 ? change : { ...change, skill_refs: skills };
      return resumeSession(opened, { sessionId, prompt, change: loading, signal, ...attended });
    }
    const wanted = { ...flags, ...(model === undefined ? {} : { model }), skill: [...flags.skill, ...skills] };
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
      // The prompt comes first: a session is called by what was said first in it.
      const content: Content = blocks.length === 0 ? prompt : [{ type: "text", text: prompt }, ...blocks];
      const { stream, limits } = await startTurn(content, signal);
      let wasAsked = false;
      const result = await watchTurn({
        stream,
        view: await chooseView(io, flags, { remark, isStaged: start.isStaged === true }),
        complete: withSessionRef(opened),
        // Also of a turn that fails later: its session is there and can go on.
        onEvent: (event) => {
          asker?.onEvent(event);
          start.onEvent?.(event);
          if (event.type === "tool_approval_requested") wasAsked = true;
          if (event.type !== "run_started") return;
          sessionId = event.session_id;
          change = toolChange(flags);
          skills = [];
          mentioned = [];
        },
      }).catch(async (thrown: unknown) => {
        // A turn that waited for a word outlives whoever started it; here the word is that it is to end.
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
      // Where it cannot be read the line says less; whoever asks for it by a command is told why.
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
    useModel: (name) => {
      model = name;
      change = { ...change, model: name };
    },
  };
}

/** What a chat says of a compaction, which changes what the model knows of the talk. */
function remark(event: AgentEvent): string | undefined {
  if (event.type === "context_evicted")
    return `(${describeEvent(event).text}; the model can read them again, /undo brings them back)`;
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
