import { RuntimeError } from "@rkat/core/contract/error";
import { requireCapability } from "@rkat/core/runtime/dispatch";
import { nearMiss } from "@rkat/core/text/near-miss";
import { withoutControls } from "@rkat/server/http/terminal-text";
import { print } from "../command-row.ts";
import { attempt, compactedLines, undoCompaction } from "../commands/compact.ts";
import { showCompaction } from "../commands/compaction-views.ts";
import { searchAndShow, statusLines } from "../commands/memory.ts";
import { skillLines } from "../commands/overview.ts";
import { createPaint, oneLine } from "../io.ts";
import type { Candidate } from "../prompts.ts";
import { contextBar } from "./context-strip.ts";
import { type Chat, type ChatPlace, currentOf, printNote, type SlashCommand, viewOf } from "./conversation.ts";
import { AGENTS_COMMANDS, agentCommandRows } from "./slash-agents.ts";
import { ANSWER_COMMANDS } from "./slash-answers.ts";
import { MODEL_COMMANDS } from "./slash-models.ts";
import { SESSION_COMMANDS } from "./slash-sessions.ts";

/** A command and what follows it; undefined when the text is a prompt, which may also begin with a path. */
export function parseSlash(text: string): { readonly name: string; readonly rest: string } | undefined {
  const [, name, rest] = /^\/([a-z]*)(?:[^\S\n]+(\S[^\n]*))?$/.exec(text.trimEnd()) ?? [];
  return name === undefined ? undefined : { name, rest: rest ?? "" };
}

/** Runs a slash command; resolves with true when the chat ends. */
export async function runSlash(chat: Chat, { name, rest }: { name: string; rest: string }): Promise<boolean> {
  const command = COMMANDS.get(Object.hasOwn(OTHER_NAMES, name) ? (OTHER_NAMES[name] ?? name) : name);
  if (command !== undefined) return command.run(chat, rest);
  const names = [...COMMANDS.keys()];
  const meant = nearMiss(name, names) ?? (name === "" ? undefined : names.find((known) => known.startsWith(name)));
  const hint = meant === undefined ? "" : `did you mean /${meant}? `;
  throw new RuntimeError("INVALID_PARAMS", `there is no /${name}; ${hint}/help lists them`);
}

/** The slash commands on the context and its compactions. */
const COMPACTION_COMMANDS: Readonly<Record<string, SlashCommand>> = {
  context: {
    meaning: "show what fills the model's context; rkat session context shows all of it",
    run: async (chat) => {
      const { io } = chat.invocation;
      const context = await chat.opened.runtime.dispatch("readContext", { session_id: currentOf(chat) });
      io.stdout.write(`${contextBar(context, io).join("\n")}\n`);
      const skills = context.messages.flatMap((message) =>
        message.role === "system_notice" && message.skill !== undefined ? [message.skill.skill_name] : [],
      );
      if (skills.length > 0) io.stdout.write(`skills: ${withoutControls([...new Set(skills)].join(", "))}\n`);
      return false;
    },
  },
  compact: {
    takes: "[INSTRUCTIONS]",
    meaning: "summarise the older turns now; TEXT names what the summary must keep",
    run: async (chat, rest) => {
      requireCompaction(chat);
      await compact(chat, rest);
      return false;
    },
  },
  receipt: {
    takes: "[all]",
    meaning: "show the newest compaction: its summary, and what it removed",
    run: async (chat, rest) => {
      requireCompaction(chat);
      if (!(await wasCompacted(chat))) return printNote(chat, "There is no compaction yet; /compact makes one.");
      await showCompaction(viewOf(chat), { word: undefined, all: rest === "all", allHint: "/receipt all" });
      return false;
    },
  },
  undo: {
    takes: "COMPACTION",
    meaning: "undo a compaction, by default the newest; later messages stay",
    run: async (chat, rest) => {
      requireCompaction(chat);
      if (!(await wasCompacted(chat, { isStanding: true }))) return printNote(chat, "There is no compaction to undo.");
      await undoCompaction(viewOf(chat), { word: rest === "" ? undefined : rest });
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
    printNote(chat, `Not compacted: ${reason ?? ""}.`);
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

/** The slash command that searches memory. */
const MEMORY_COMMANDS: Readonly<Record<string, SlashCommand>> = {
  memory: {
    takes: "[-a] QUERY",
    meaning: "search what compactions removed, here and in other sessions; with -a, everything",
    run: async ({ invocation, opened, source }, rest) => {
      const { io } = invocation;
      const [, isAll, query = ""] = /^(-a(?:\s+(?=\S)|$))?(.*)$/s.exec(rest) ?? [];
      if (rest === "") {
        const status = await opened.runtime.dispatch("readMemoryStatus", {});
        print(io, statusLines(status, { paint: createPaint(io.stdout, io.env) }));
      } else {
        const reach = isAll === undefined ? "discarded" : "everything";
        await source.during((signal) => searchAndShow(io, opened, { query, reach, signal, hints: HINTS }));
      }
      return false;
    },
  },
};

/** The slash command that loads skills. */
const SKILL_COMMANDS: Readonly<Record<string, SlashCommand>> = {
  skill: {
    takes: "[NAME]",
    meaning: "load a skill with the next prompt; without a name, list them",
    candidates: async ({ opened }) => {
      const { skills } = await opened.runtime.dispatch("listSkills", {});
      return skills.filter((row) => row.is_active).map(({ name, description }) => ({ text: name, note: description }));
    },
    run: async (chat, rest) => {
      const { runtime } = chat.opened;
      if (rest === "") {
        const { io } = chat.invocation;
        const { skills } = await runtime.dispatch("listSkills", {});
        print(io, skillLines(skills, createPaint(io.stdout, io.env)));
        return false;
      }
      // A missing or unreadable skill is reported now, not with the prompt.
      const { name } = await runtime.dispatch("readSkill", { skill_name: rest });
      chat.conversation.useSkill(name);
      return printNote(chat, `${name} is loaded with the next prompt.`);
    },
  },
};

const OTHER_COMMANDS: Readonly<Record<string, SlashCommand>> = {
  help: {
    meaning: "show this",
    run: async (chat) => {
      await showHelp(chat);
      return false;
    },
  },
  quit: { meaning: "end; Ctrl-D does, too", run: async () => true },
};

/** The commands in the groups that the help has. */
const GROUPS: Readonly<Record<string, Readonly<Record<string, SlashCommand>>>> = {
  Sessions: SESSION_COMMANDS,
  "Who answers": { ...MODEL_COMMANDS, ...AGENTS_COMMANDS, ...SKILL_COMMANDS },
  Answers: ANSWER_COMMANDS,
  "Context and memory": { ...COMPACTION_COMMANDS, ...MEMORY_COMMANDS },
  Other: OTHER_COMMANDS,
};

const COMMANDS: ReadonlyMap<string, SlashCommand> = new Map(
  Object.values(GROUPS).flatMap((commands) => Object.entries(commands)),
);

/** Their names in other programs. */
const OTHER_NAMES: Readonly<Record<string, string>> = { exit: "quit", clear: "new", cost: "context" };

type HelpRow = readonly [typed: string, meaning: string];

const FILES: HelpRow = [
  "@FILE",
  'attach a file, or the names in a folder; @"with blanks"; \\@ for a word that is not a file',
];
const SHELL: HelpRow = [
  "!COMMAND",
  "run a shell command; the model gets its output with the next prompt; !!COMMAND keeps it from the model",
];

const KEYS: readonly HelpRow[] = [
  ["Tab", "complete"],
  ["↑ ↓, Ctrl-R", "earlier prompts"],
  ["Alt-Enter, \\", "a new line: \\ at the end of one"],
  ["Ctrl-G", "write in an editor"],
  ["Esc", "stop an answer"],
  ["Ctrl-C", "stop an answer, drop a line; on an empty line, end"],
  ["Ctrl-D", "end"],
];

const COLUMNS = 80;
const COLUMNS_MAX = 120;

async function showHelp({ invocation, source }: Chat): Promise<void> {
  // Loaded on first use.
  const { createWrappedText, NO_INK } = await import("./wrapped-text.ts");
  const { stderr, env } = invocation.io;
  const { bold } = createPaint(stderr, env);
  const groups = Object.entries(GROUPS).map(([title, commands]): readonly [string, readonly HelpRow[]] => [
    title,
    Object.entries(commands).map(([name, { takes = "", meaning }]) => [`/${name} ${takes}`.trimEnd(), meaning]),
  ]);
  const agents = ["With an agent", agentCommandRows()] as const;
  // Shell commands and keys work at a terminal only.
  const isTyped = source.pick !== undefined;
  const typed = isTyped
    ? ([["In a prompt", [FILES, SHELL]] as const, ["Keys", KEYS] as const] as const)
    : ([["In a prompt", [FILES]]] as const);
  const all = [...groups, agents, ...typed];
  const indent = Math.max(...all.flatMap(([, rows]) => rows.map(([term]) => term.length))) + 4;
  const width = (): number => Math.min(COLUMNS_MAX, stderr.columns ?? COLUMNS);
  const text = createWrappedText({ write: (piece) => stderr.write(piece), width });
  for (const [title, rows] of all) {
    stderr.write(`${bold(title)}\n`);
    for (const [term, meaning] of rows) {
      text.begin(`  ${term}`.padEnd(indent), " ".repeat(indent));
      text.add(meaning, NO_INK);
      text.end();
    }
  }
}

const CANDIDATES_MAX = 200;
const NOTE_CHARS_MAX = 100;

/** The commands that begin so, and what they do. */
export function commandsLike(typed: string): readonly Candidate[] {
  const named = [...COMMANDS].map(([name, { meaning }]) => ({ text: `/${name}`, note: meaning }));
  return named.filter(({ text }) => text.startsWith(typed));
}

/** The completions of a line that begins with a slash: commands, or the arguments of the one that is written. */
export async function completeSlash(line: string, chat: ChatPlace): Promise<readonly Candidate[]> {
  if (!line.startsWith("/")) return [];
  const [typed = "", ...words] = line.slice(1).split(" ");
  if (words.length === 0) return commandsLike(line);
  const rest = words.join(" ").trimStart();
  try {
    const candidates = (await COMMANDS.get(typed)?.candidates?.(chat)) ?? [];
    return candidates
      .filter(({ text }) => text.startsWith(rest) && withoutControls(text) === text)
      .slice(0, CANDIDATES_MAX)
      .map(({ text, note }) => ({ text, note: oneLine(note ?? "", NOTE_CHARS_MAX) }));
  } catch {
    // Tab offers what it finds and reports no errors.
    return [];
  }
}
