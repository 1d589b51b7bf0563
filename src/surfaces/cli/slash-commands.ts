import { RuntimeError } from "../../contract/error.ts";
import { requireCapability } from "../../service/dispatch.ts";
import { compactAgent } from "./commands/agent-changes.ts";
import { showAgentStatus } from "./commands/agent-views.ts";
import { attempt, compactedLines, undoCompaction } from "./commands/compact.ts";
import { showCompaction } from "./commands/compaction-views.ts";
import { searchAndShow, showMemoryStatus } from "./commands/memory.ts";
import { showList, showSession } from "./commands/session-views.ts";
import { showSkills } from "./commands/skill.ts";
import { contextBar } from "./context-strip.ts";
import { type Chat, currentOf, type SlashCommand, tell } from "./conversation.ts";
import { alignColumns, counted, createPaint } from "./io.ts";
import { findSession, shortId } from "./session-selector.ts";

/** A command and what follows it; undefined when the text is a prompt, which may also begin with a path. */
export function parseSlash(text: string): { readonly name: string; readonly rest: string } | undefined {
  const [, name, rest] = /^\/([a-z]*)(?:[^\S\n]+(\S[^\n]*))?$/.exec(text.trimEnd()) ?? [];
  return name === undefined ? undefined : { name, rest: rest ?? "" };
}

/** Does what a slash command says; resolves with true when the chat is to end. */
export async function runSlash(chat: Chat, { name, rest }: { name: string; rest: string }): Promise<boolean> {
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command === undefined)
    throw new RuntimeError("INVALID_PARAMS", `there is no /${name}; /help lists what there is`);
  return command.run(chat, rest);
}

/** What a chat can do about what the model is shown of it. */
const COMPACTION_COMMANDS: Readonly<Record<string, SlashCommand>> = {
  context: {
    meaning: "show what fills the model's context; rkat session context shows all of it",
    run: async (chat) => {
      const { io } = chat.invocation;
      const context = await chat.opened.runtime.dispatch("readContext", { session_id: currentOf(chat) });
      io.stdout.write(`${contextBar(context, io).join("\n")}\n`);
      return false;
    },
  },
  compact: {
    takes: "[INSTRUCTIONS]",
    meaning: "summarise the older turns now; say what the summary must not leave out",
    run: async (chat, rest) => {
      requireCompaction(chat);
      await compact(chat, rest);
      return false;
    },
  },
  receipt: {
    takes: "[all]",
    meaning: "show the newest compaction: its summary, and what it took out",
    run: async (chat, rest) => {
      requireCompaction(chat);
      if (!(await wasCompacted(chat))) return tell(chat, "There is no compaction yet; /compact makes one.");
      const how = { word: undefined, all: rest === "all", allHint: "/receipt all" };
      await showCompaction(chat.invocation.io, chat.opened, { id: currentOf(chat), ...how });
      return false;
    },
  },
  undo: {
    takes: "COMPACTION",
    meaning: "undo a compaction, the newest that stands unless one is named; what was said since stays",
    run: async (chat, rest) => {
      requireCompaction(chat);
      if (!(await wasCompacted(chat, { isStanding: true }))) return tell(chat, "There is no compaction to undo.");
      await undoCompaction(chat.invocation.io, chat.opened, {
        id: currentOf(chat),
        word: rest === "" ? undefined : rest,
      });
      return false;
    },
  },
};

async function compact(chat: Chat, rest: string): Promise<void> {
  const { invocation, opened, source } = chat;
  const { io } = invocation;
  const id = currentOf(chat);
  const instructions = rest === "" ? {} : { instructions: rest };
  const { result, failure } = await source.during((signal) => attempt(io, opened, { id, ...instructions, signal }));
  if (failure !== undefined) throw failure;
  const { compaction, reason } = result;
  if (compaction === undefined) {
    tell(chat, `Not compacted: ${reason ?? ""}.`);
    return;
  }
  io.stdout.write(`${compactedLines(io, compaction).join("\n")}\n`);
  io.stderr.write(`${createPaint(io.stderr, io.env).dim("/receipt shows what it did, /undo brings it back")}\n`);
}

function requireCompaction({ opened }: Chat): void {
  requireCapability(new Set(opened.config.features), "session-compaction");
}

async function wasCompacted(chat: Chat, { isStanding = false } = {}): Promise<boolean> {
  const session_id = chat.conversation.sessionId;
  if (session_id === undefined) return false;
  const { compactions } = await chat.opened.runtime.dispatch("listCompactions", { session_id });
  return compactions.some(({ undone }) => !(isStanding && undone));
}

const HINTS = { whole: "rkat memory search --all", everything: "/memory -a QUERY" };

/** What a chat can do to find again what was said. */
const MEMORY_COMMANDS: Readonly<Record<string, SlashCommand>> = {
  memory: {
    takes: "[-a] QUERY",
    meaning: "search what compactions took out, here and in other sessions; with -a, everything",
    run: async ({ invocation, opened, source }, rest) => {
      const { io } = invocation;
      const [, isAll, query = ""] = /^(-a(?:\s+(?=\S)|$))?(.*)$/s.exec(rest) ?? [];
      if (rest === "") await showMemoryStatus(io, opened);
      else {
        const reach = isAll === undefined ? "discarded" : "everything";
        await source.during((signal) => searchAndShow(io, opened, { query, reach, signal, hints: HINTS }));
      }
      return false;
    },
  },
};

const SESSIONS_SHOWN = 10;

const COMMANDS: Readonly<Record<string, SlashCommand>> = {
  help: { meaning: "show this", run: async (chat) => tell(chat, helpText()) },
  new: {
    meaning: "begin a new session",
    run: async (chat) => {
      chat.conversation.switchTo(undefined);
      return tell(chat, "The next prompt begins a new session.");
    },
  },
  sessions: {
    meaning: "list the sessions of this folder",
    run: async ({ invocation, opened }) => {
      await showList(invocation, opened, { limit: SESSIONS_SHOWN });
      return false;
    },
  },
  resume: {
    takes: "SESSION",
    meaning: "go on with another session: last, ~1, or the beginning of an id",
    run: async (chat, rest) => {
      const id = await findSession(chat.opened, rest || "last");
      const { message_count, model } = await chat.opened.runtime.readSession(id);
      chat.conversation.switchTo(id);
      return tell(chat, `Now in ${shortId(id)}: ${counted(message_count, "message")} with ${model}.`);
    },
  },
  history: {
    meaning: "show what was said",
    run: async (chat) => {
      await showSession(chat.invocation, chat.opened, { id: currentOf(chat), history: true });
      return false;
    },
  },
  ...COMPACTION_COMMANDS,
  ...MEMORY_COMMANDS,
  skill: {
    takes: "[NAME]",
    meaning: "load a skill with the next prompt; without a name, list them",
    run: async (chat, rest) => {
      const { runtime } = chat.opened;
      if (rest === "") {
        showSkills(chat.invocation.io, (await runtime.dispatch("listSkills", {})).skills);
        return false;
      }
      // One that is not there, or cannot be read, is told of now and not with the prompt.
      const { name } = await runtime.dispatch("readSkill", { skill_name: rest });
      chat.conversation.useSkill(name);
      return tell(chat, `${name} is loaded with the next prompt.`);
    },
  },
  model: {
    takes: "NAME",
    meaning: "use another model from the next turn on; without a name, say which",
    run: async (chat, rest) => {
      if (rest === "") return tell(chat, await modelOf(chat));
      chat.conversation.useModel(rest);
      return tell(chat, `The next turn asks ${rest}.`);
    },
  },
  quit: { meaning: "end; Ctrl-D does, too", run: async () => true },
};

function helpText(): string {
  const rows = Object.entries(COMMANDS).map(([name, { takes = "", meaning }]) => [`/${name} ${takes}`, meaning]);
  const keys = ["", "A line that ends in \\ goes on in the next. Ctrl-C stops an answer; on an empty line it ends."];
  return [...alignColumns([...rows, ...agentCommandRows()]), ...keys].join("\n");
}

async function modelOf({ opened, conversation }: Chat): Promise<string> {
  const { sessionId, model } = conversation;
  if (model !== undefined) return model;
  if (sessionId === undefined || !opened.isKept) return opened.config.agent.model ?? "the first that has a key";
  const info = await opened.runtime.readSession(sessionId);
  return `${info.model} (${info.provider})`;
}

interface AgentCommand {
  readonly meaning: string;
  run(chat: Chat, agent: string): Promise<void>;
}

/** What a chat can do about what its agent remembers. */
const AGENT_COMMANDS: Readonly<Record<string, AgentCommand>> = {
  "@memory-status": {
    meaning: "with --agent: show what the agent remembers",
    run: ({ invocation, opened }, agent) => showAgentStatus(invocation.io, opened, { agent }),
  },
  "@compact-memories": {
    meaning: "with --agent: summarise the agent's older memories now",
    run: ({ invocation, opened, source }, agent) =>
      source.during((signal) => compactAgent(invocation, opened, { agent, signal })),
  },
};

/** Does what such a command says; resolves with false when the text is a prompt, which may begin with any `@word`. */
export async function runAgentCommand(chat: Chat, text: string): Promise<boolean> {
  const name = text.trim();
  const command = Object.hasOwn(AGENT_COMMANDS, name) ? AGENT_COMMANDS[name] : undefined;
  if (command === undefined) return false;
  if (chat.agent === undefined) {
    const message = `${name} is about what an agent remembers; rkat chat --agent NAME talks to one`;
    throw new RuntimeError("INVALID_PARAMS", message);
  }
  await command.run(chat, chat.agent);
  return true;
}

/** The commands and what they do. */
function agentCommandRows(): readonly (readonly [name: string, meaning: string])[] {
  return Object.entries(AGENT_COMMANDS).map(([name, { meaning }]) => [name, meaning]);
}
