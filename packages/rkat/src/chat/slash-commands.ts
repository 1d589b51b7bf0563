import type { CatalogModel } from "@rkat/core/contract/capability";
import { invalid } from "@rkat/core/contract/error";
import { requireCapability } from "@rkat/core/runtime/dispatch";
import { nearMiss } from "@rkat/core/text/near-miss";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { print } from "../command-row.ts";
import { agentStatusLines, compactAgent, strangerText } from "../commands/agent.ts";
import { attempt, compactedLines, undoCompaction } from "../commands/compact.ts";
import { showCompaction } from "../commands/compaction-views.ts";
import { searchAndShow, statusLines } from "../commands/memory.ts";
import { agentsHere, keyNote, priceText, skillLines } from "../commands/overview.ts";
import { goalText } from "../commands/session-views.ts";
import { ageSince, alignColumns, counted, createPaint, grouped, oneLine } from "../io.ts";
import type { Candidate } from "../prompts.ts";
import { contextBar } from "./context-strip.ts";
import { type Chat, type ChatPlace, choose, currentOf, printNote, type SlashCommand, viewOf } from "./conversation.ts";
import type { Choice } from "./picker.ts";
import { ANSWER_COMMANDS } from "./slash-answers.ts";
import { SESSION_COMMANDS } from "./slash-sessions.ts";

/** A command and what follows it; undefined when the text is a prompt, which may also begin with a path. */
export function parseSlash(text: string): { readonly name: string; readonly rest: string } | undefined {
  const [, name, rest] = /^\/([a-z]*)(?:[^\S\n]+(\S[^\n]*))?$/.exec(text.trimEnd()) ?? [];
  return name === undefined ? undefined : { name, rest: rest ?? "" };
}

/** Runs a slash command; resolves with true when the chat ends. */
export async function runSlash(chat: Chat, { name, rest }: { name: string; rest: string }): Promise<boolean> {
  const command = COMMANDS.get(Object.hasOwn(OTHER_NAMES, name) ? (OTHER_NAMES[name] ?? name) : name);
  if (command !== undefined) {
    await command.run(chat, rest);
    return command.endsChat === true;
  }
  const names = [...COMMANDS.keys()];
  const meant = nearMiss(name, names) ?? (name === "" ? undefined : names.find((known) => known.startsWith(name)));
  const hint = meant === undefined ? "" : `did you mean /${meant}? `;
  throw invalid(`there is no /${name}; ${hint}/help lists them`);
}

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
    },
  },
  compact: {
    takes: "[INSTRUCTIONS]",
    meaning: "summarise the older turns now; TEXT names what the summary must keep",
    run: async (chat, rest) => {
      requireCompaction(chat);
      await compact(chat, rest);
    },
  },
  receipt: {
    takes: "[all]",
    meaning: "show the newest compaction: its summary, and what it removed",
    run: async (chat, rest) => {
      requireCompaction(chat);
      if (!(await wasCompacted(chat))) return printNote(chat, "There is no compaction yet; /compact makes one.");
      await showCompaction(viewOf(chat), { word: undefined, all: rest === "all", allHint: "/receipt all" });
    },
  },
  undo: {
    takes: "COMPACTION",
    meaning: "undo a compaction, by default the newest; later messages stay",
    run: async (chat, rest) => {
      requireCompaction(chat);
      if (!(await wasCompacted(chat, { isStanding: true }))) return printNote(chat, "There is no compaction to undo.");
      await undoCompaction(viewOf(chat), { word: rest === "" ? undefined : rest });
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
    return printNote(chat, `Not compacted: ${reason ?? ""}.`);
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
    },
  },
};

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
        return print(io, skillLines(skills, createPaint(io.stdout, io.env)));
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
    run: showHelp,
  },
  quit: { meaning: "end; Ctrl-D does, too", endsChat: true, run: async () => {} },
};

const GOAL_COMMANDS: Readonly<Record<string, SlashCommand>> = {
  goal: {
    takes: "[!TEST|SENTENCE|end]",
    meaning:
      "work on the next prompt until the command TEST exits with 0, or the sentence holds; without one, show the goal",
    run: async (chat, rest) => {
      if (rest !== "" && rest !== "end") {
        chat.conversation.useGoal(rest.startsWith("!") ? { until: rest.slice(1) } : { untilTrue: rest });
        return printNote(chat, "The next prompt works until this is reached; Ctrl-C ends it.");
      }
      // Also the one that a refused prompt left for the next.
      if (rest === "end") chat.conversation.useGoal({});
      const { sessionId: session_id } = chat.conversation;
      const operation = rest === "end" ? "endGoal" : "readSession";
      const { goal } = session_id === undefined ? {} : await chat.opened.runtime.dispatch(operation, { session_id });
      return printNote(chat, goal === undefined ? "There is no goal." : `Goal ${goalText(goal)}.`);
    },
  },
};

const MODEL_COMMANDS: Readonly<Record<string, SlashCommand>> = {
  model: {
    takes: "[NAME]",
    meaning: "use another model from the next turn on; without a name, choose one from a list",
    candidates: async (chat) => (await rowsOf(chat)).map(({ model, note }) => ({ text: model.id, note })),
    run: async (chat, rest) => {
      const name = rest === "" ? await chooseModel(chat) : await requireKnown(chat, rest);
      if (name === undefined) return;
      chat.conversation.useModel(name);
      return printNote(chat, `The next turn uses ${name}.`);
    },
  },
};

interface Row {
  readonly provider: string;
  readonly model: CatalogModel;
  readonly canBeAsked: boolean;
  readonly note: string;
}

/** Every known model, usable ones first. */
async function rowsOf({ invocation, opened }: ChatPlace): Promise<readonly Row[]> {
  const catalog = await opened.runtime.dispatch("readModels", {});
  const { providers } = await invocation.parts.inspectModels(opened.config);
  const rows = catalog.providers.flatMap(({ provider, models }) => {
    const canBeAsked = providers.find((row) => row.provider === provider)?.hasKey !== false;
    return models.map((model): Row => {
      const window = model.context_window === undefined ? "" : `${grouped(model.context_window)} context`;
      const facts = [provider, window, priceText(model.prices), keyNote(provider, providers)];
      return { provider, model, canBeAsked, note: facts.filter((fact) => fact !== "").join(" · ") };
    });
  });
  return rows.toSorted((a, b) => Number(b.canBeAsked) - Number(a.canBeAsked));
}

async function chooseModel(chat: Chat): Promise<string | undefined> {
  const current = await currentModel(chat);
  const choices = (await rowsOf(chat)).map(({ model, note }): Choice<string> => {
    const isCurrent = model.id === current.id;
    return { value: model.id, label: `${model.id}${isCurrent ? " *" : ""}`, note, words: model.display_name };
  });
  const title = `Current model: ${current.words}. Switch to:`;
  return choose(chat, { title, choices }, `Current model: ${current.words}. /model NAME switches to another.`);
}

async function currentModel({ opened, conversation }: Chat): Promise<{ readonly id: string; readonly words: string }> {
  const { sessionId, model } = conversation;
  if (model !== undefined) return { id: model, words: model };
  if (sessionId === undefined || !opened.isKept) {
    const configured = opened.config.agent.model;
    return { id: configured ?? "", words: configured ?? "the first that has a key" };
  }
  const info = await opened.runtime.dispatch("readSession", { session_id: sessionId });
  return { id: info.model, words: `${info.model} (${info.provider})` };
}

/**
 * Refuses an unknown name: the provider would report a typo only after the prompt. With a provider before
 * it any name is accepted, since new models appear faster than lists of them.
 */
async function requireKnown(chat: Chat, name: string): Promise<string> {
  const { providers, self_hosted, profiles } = chat.opened.config;
  const rows = await rowsOf(chat);
  const ids = [...rows.map(({ model }) => model.id), ...Object.keys(profiles)];
  if (ids.some((id) => id === name || isVariant(name, id))) return name;
  const [provider = "", ...rest] = name.split("/");
  const inspected = (await chat.invocation.parts.inspectModels(chat.opened.config)).providers;
  const hosted = [...ALIASES, ...inspected.map((row) => row.provider)];
  const owners = [...hosted, ...Object.keys(providers), ...Object.keys(self_hosted.servers)];
  if (rest.length > 0 && rest.join("/") !== "") {
    if (owners.includes(provider)) return name;
    const meant = nearMiss(provider, owners);
    const hint = meant === undefined ? `write one of ${owners.join(", ")}` : `did you mean ${meant}/${rest.join("/")}?`;
    throw invalid(`there is no provider ${provider}; ${hint}`);
  }
  const meant = nearMiss(name, ids);
  const hint = meant === undefined ? "/model lists them." : `did you mean ${meant}?`;
  throw invalid(`no model ${name} is known; ${hint} For a new model: /model PROVIDER/${name}`);
}

/** Providers without a key, which no list of keys has. */
const ALIASES = ["ollama", "google"];

/** `gpt-5.5-2026-04-23` is a variant of `gpt-5.5`. */
function isVariant(name: string, id: string): boolean {
  return name.startsWith(id) && /^(?:-\d{4}|[@:])/.test(name.slice(id.length));
}

const AGENTS_COMMANDS: Readonly<Record<string, SlashCommand>> = {
  agents: {
    takes: "[NAME]",
    meaning: "talk to an agent with memories, from a list or by name; also lists the sub-agents",
    candidates: async ({ opened }) => {
      const { agents } = await opened.runtime.dispatch("listAgents", {});
      return agents.map(({ agent, count }) => ({ text: agent, note: counted(count, "memory") }));
    },
    run: async (chat, rest) => {
      const name = rest === "" ? await chooseAgent(chat) : rest;
      if (name === undefined) return;
      const { count } = await chat.opened.runtime.dispatch("readAgentStatus", { agent: name });
      chat.conversation.talkTo(name);
      const known = count === 0 ? strangerText(name) : `${name} has ${counted(count, "memory")}.`;
      return printNote(chat, `The next prompt starts a session with ${name}. ${known}`);
    },
  },
};

const DESCRIPTION_CHARS_MAX = 80;

async function chooseAgent(chat: Chat): Promise<string | undefined> {
  const { agents: helpers } = await agentsHere(chat.invocation);
  const rows = helpers.map(({ name, description }) => ["", name, oneLine(description, DESCRIPTION_CHARS_MAX)]);
  chat.invocation.io.stdout.write(`Sub-agents:\n${alignColumns(rows).join("\n")}\n`);
  const { agents } = await chat.opened.runtime.dispatch("listAgents", {});
  if (agents.length === 0) {
    printNote(chat, "No agent has memories yet; /agents NAME starts one.");
    return undefined;
  }
  const choices = agents.map(({ agent, count, updated_at }) => {
    return { value: agent, label: agent, note: `${counted(count, "memory")}, ${ageSince(updated_at)}` };
  });
  return choose(chat, { title: "Choose an agent", choices }, "/agents NAME chooses one.");
}

interface AgentCommand {
  readonly meaning: string;
  run(chat: Chat, agent: string): Promise<void>;
}

/** The chat commands on its agent's memories. */
const AGENT_COMMANDS: Readonly<Record<string, AgentCommand>> = {
  "@memory-status": {
    meaning: "with --agent: show what the agent remembers",
    run: async ({ invocation: { io }, opened }, agent) => {
      const status = await opened.runtime.dispatch("readAgentStatus", { agent });
      print(io, await agentStatusLines(status, { opened, paint: createPaint(io.stdout, io.env) }));
    },
  },
  "@compact-memories": {
    meaning: "with --agent: summarise the agent's older memories now",
    run: ({ invocation, opened, source }, agent) => {
      const { io } = invocation;
      const call = { invocation, io, opened, paint: createPaint(io.stdout, io.env) };
      return source.during((signal) => compactAgent(call, { agent, signal }));
    },
  },
};

/** Runs such a command; resolves with false when the text is a prompt, which may begin with any `@word`. */
export async function runAgentCommand(chat: Chat, text: string): Promise<boolean> {
  const name = text.trim();
  const command = Object.hasOwn(AGENT_COMMANDS, name) ? AGENT_COMMANDS[name] : undefined;
  if (command === undefined) return false;
  const { agent } = chat.conversation;
  if (agent === undefined) {
    const message = `${name} needs an agent; start the chat with rkat chat --agent NAME`;
    throw invalid(message);
  }
  await command.run(chat, agent);
  return true;
}

function agentCommandRows(): readonly (readonly [name: string, meaning: string])[] {
  return Object.entries(AGENT_COMMANDS).map(([name, { meaning }]) => [name, meaning]);
}

/** The commands in the groups that the help has. */
const GROUPS: Readonly<Record<string, Readonly<Record<string, SlashCommand>>>> = {
  Sessions: { ...SESSION_COMMANDS, ...GOAL_COMMANDS },
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
