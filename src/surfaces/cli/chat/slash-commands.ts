import { RuntimeError } from "../../../contract/error.ts";
import { alignColumns, counted } from "../plain-text.ts";
import { showList, showSession } from "../sessions/read-sessions.ts";
import { findSession, shortId } from "../sessions/selector.ts";
import { agentCommandRows } from "./agent-commands.ts";
import { type Chat, currentOf, type SlashCommand, tell } from "./chat.ts";
import { COMPACTION_COMMANDS } from "./compaction-commands.ts";
import { MEMORY_COMMANDS } from "./memory-commands.ts";

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
