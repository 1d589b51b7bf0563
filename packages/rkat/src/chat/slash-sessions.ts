import { lstat } from "node:fs/promises";
import { extname } from "node:path";
import { parentageOf } from "@rkat/core/contract/describe-event";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import type { SessionSummary } from "@rkat/core/contract/session-info";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { print } from "../command-row.ts";
import { outputPath, writeFileWhole } from "../commands/output-file.ts";
import { messageText, sessionTable, showSession } from "../commands/session-views.ts";
import { ageOf, bytesText, counted, oneLine } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import { findSession, shortId, shortIds } from "../session-selector.ts";
import { piecesOf } from "../transfer/session-transfer.ts";
import { type Chat, choose, currentOf, printNote, type SlashCommand, viewOf } from "./conversation.ts";
import { isFile, typedText } from "./past-prompts.ts";
import type { Choice, Picker } from "./picker.ts";

const SESSIONS_SHOWN = 10;

export const SESSION_COMMANDS: Readonly<Record<string, SlashCommand>> = {
  new: {
    meaning: "start a new session",
    run: async (chat) => {
      chat.conversation.switchTo(undefined);
      return printNote(chat, "The next prompt starts a new session.");
    },
  },
  sessions: {
    meaning: "list the sessions of this folder",
    run: async ({ invocation: { io }, opened }) => {
      print(io, sessionTable(io, await opened.runtime.dispatch("listSessions", { limit: SESSIONS_SHOWN })));
    },
  },
  resume: {
    takes: "[SESSION]",
    meaning: "resume another session, from a list or by name: last, ~1, or the beginning of an id",
    candidates: async ({ opened }) => {
      const sessions = await ownSessions(opened, SESSIONS_OFFERED);
      const idOf = shortIds(sessions.map(({ session_id }) => session_id));
      return sessions.map((session) => ({ text: idOf(session.session_id), note: oneLine(session.title, TITLE_CHARS) }));
    },
    run: async (chat, rest) => {
      const id = rest === "" ? await chooseSession(chat) : await findSession(chat.opened, rest);
      if (id === undefined) return;
      const { message_count, model } = await chat.opened.runtime.dispatch("readSession", { session_id: id });
      chat.conversation.switchTo(id);
      return printNote(chat, `Now in ${shortId(id)}: ${counted(message_count, "message")} with ${model}.`);
    },
  },
  history: {
    meaning: "show the conversation",
    run: (chat) => showSession(viewOf(chat), { history: true }),
  },
  fork: {
    takes: "[N]",
    meaning: "fork before one of your messages, as /history numbers them; this session stays as it is",
    run: async (chat, rest) => {
      const id = currentOf(chat);
      const index = rest === "" ? await chooseMessage(chat, id) : indexIn(rest);
      if (index !== undefined) await forkBefore(chat, id, index);
    },
  },
  export: {
    takes: "[FILE]",
    meaning: "write the session to a file: .md, .html, .jsonl, or .json as chat completions take it",
    run: (chat, rest) => exportTo(chat, currentOf(chat), rest),
  },
};

/** The most sessions in the list, since each is read for its search text. */
const SESSIONS_LISTED = 200;
const SESSIONS_OFFERED = 30;
const TITLE_CHARS = 80;
const LAST_WORDS_CHARS = 2_000;

type Kept = Pick<Opened, "runtime">;

/** The newest sessions that a person had; those of sub-agents are found by their parents. */
async function ownSessions({ runtime }: Kept, limit: number): Promise<readonly SessionSummary[]> {
  const { sessions } = await runtime.dispatch("listSessions", { limit });
  return sessions.filter((session) => parentageOf(session) === undefined);
}

async function chooseSession(chat: Chat): Promise<string | undefined> {
  const picker = await sessionPicker(chat.opened, chat.conversation.sessionId);
  return choose(chat, picker, "/resume SESSION resumes one: last, ~1, or the beginning of its id.");
}

/** The sessions of a folder to choose from, found by what was said first and last in them. */
export async function sessionPicker(opened: Kept, current?: string): Promise<Picker<string>> {
  const { runtime } = opened;
  const sessions = await ownSessions(opened, SESSIONS_LISTED);
  if (sessions.length === 0) {
    throw new RuntimeError("SESSION_NOT_FOUND", "there is no session yet; the first prompt starts one");
  }
  const now = Date.now();
  const idOf = shortIds(sessions.map(({ session_id }) => session_id));
  const choices = sessions.map(async (session): Promise<Choice<string>> => {
    const { session_id: value, title, state, updated_at, message_count, model } = session;
    const marks = [...(value === current ? ["this one"] : []), ...(state === "idle" ? [] : [state])];
    const facts = [...marks, ageOf(updated_at, now), counted(message_count, "message"), oneLine(model, TITLE_CHARS)];
    const { last_assistant_text = "" } = await runtime.dispatch("readSession", { session_id: value });
    return {
      value,
      label: `${idOf(value)}  ${oneLine(title, TITLE_CHARS)}`,
      note: facts.join(" · "),
      words: withoutControls(last_assistant_text.slice(0, LAST_WORDS_CHARS)),
      preview: () => lastExchanges(opened, value, message_count),
    };
  });
  return { title: "Which session?", choices: await Promise.all(choices) };
}

const PREVIEW_MESSAGES = 4;
const PREVIEW_CHARS = 300;

async function lastExchanges({ runtime }: Kept, session_id: string, count: number): Promise<readonly string[]> {
  const offset = Math.max(0, count - PREVIEW_MESSAGES);
  const { messages } = await runtime.dispatch("readHistory", { session_id, offset });
  return messages.map((message) => oneLine(messageText(message), PREVIEW_CHARS));
}

const MESSAGES_LISTED = 200;
const MESSAGE_CHARS = 100;

async function chooseMessage(chat: Chat, session_id: string): Promise<number | undefined> {
  const { messages } = await chat.opened.runtime.dispatch("readHistory", { session_id });
  const said = messages.flatMap((message, index) => {
    const isSaid = message.role === "user" && message.compaction_id === undefined;
    return isSaid ? [{ index, text: typedText(message.content) }] : [];
  });
  const choices = said
    .slice(-MESSAGES_LISTED)
    .toReversed()
    .map(({ index, text }) => ({ value: index, label: oneLine(text, MESSAGE_CHARS), note: `message ${index}` }));
  const title = "Fork before which message?";
  return choose(chat, { title, choices }, "/fork N forks before message N.");
}

function indexIn(word: string): number {
  if (/^\d{1,9}$/.test(word)) return Number(word);
  throw invalid(`/fork ${word}: write the number of a message, as /history shows it`);
}

async function forkBefore(chat: Chat, session_id: string, message_index: number): Promise<void> {
  const { runtime } = chat.opened;
  const { messages } = await runtime.dispatch("readHistory", { session_id, offset: message_index, limit: 1 });
  const fork = await runtime.dispatch("forkSession", { session_id, message_index });
  chat.conversation.switchTo(fork.session_id);
  printNote(
    chat,
    `Now in ${shortId(fork.session_id)}, a fork of ${shortId(session_id)} before message ${message_index}.`,
  );
  const [message] = messages;
  if (message?.role !== "user") return;
  const { content } = message;
  const files =
    typeof content === "string" ? [] : content.filter((block) => block.type !== "text" || isFile(block.text));
  if (files.length > 0)
    printNote(chat, `It had ${counted(files.length, "file")} with it; name them with @ to attach them again.`);
  const text = typedText(content);
  if (chat.source.draft === undefined) printNote(chat, `It was:\n${text}`);
  else chat.source.draft(text);
}

const FORMATS = { ".md": "markdown", ".html": "html", ".jsonl": "jsonl", ".json": "openai" } as const;

async function exportTo(chat: Chat, session_id: string, given: string): Promise<void> {
  const { io } = chat.invocation;
  const shown = given === "" ? `${shortId(session_id)}.md` : given;
  const path = await outputPath(io, shown, `${shortId(session_id)}.md`);
  const ending = extname(path).toLowerCase();
  const format = Object.entries(FORMATS).find(([known]) => known === ending)?.[1];
  if (format === undefined) {
    const message = `/export ${shown}: end its name with ${Object.keys(FORMATS).join(", ")}, which sets the format`;
    throw invalid(message);
  }
  if (await lstat(path).catch(() => undefined)) throw invalid(`${shown} exists already; name another: /export FILE`);
  const pieces = piecesOf(io, chat.opened.runtime, { session_id, format });
  const bytes = await writeFileWhole(path, pieces, { shown, isForced: false });
  printNote(chat, `Wrote ${shown}: ${bytesText(bytes)}. Anyone who gets the file can read the whole session.`);
}
