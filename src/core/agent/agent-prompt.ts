import { LONGTERM_HEADING, RECENT_HEADING } from "./tier-prompts.ts";

/** What an agent is shown. What is left out, or empty, leaves no heading behind. */
export interface AgentPromptParts {
  readonly name: string;
  /** Who it is, after "You are NAME." */
  readonly profile?: string | undefined;
  readonly commands?: readonly string[] | undefined;
  readonly notes?: readonly string[] | undefined;
  readonly longtermSummary?: string | undefined;
  readonly recentSummary?: string | undefined;
  /** The newest memories word for word, oldest first. */
  readonly immediate: readonly string[];
  /** Where it is now and what is there; a line for it to go on from follows. */
  readonly situation?: string | undefined;
}

/** The text a model, base or chat, is shown of an agent's life: who it is, what it knows, then what it just saw. */
export function assembleAgentPrompt(parts: AgentPromptParts): string {
  const { name, profile, commands = [], notes = [], longtermSummary, recentSummary, immediate, situation } = parts;
  const sections = [
    `You are ${name}. ${profile?.trim() ?? ""}`.trim(),
    commands.length === 0 ? "" : ["BASIC COMMANDS:", ...commands.map((command) => `- ${command.trim()}`)].join("\n"),
    titled("## Relevant Private Notes", notes.map((note) => note.trim()).join("\n\n")),
    titled(LONGTERM_HEADING, longtermSummary?.trim()),
    titled(RECENT_HEADING, recentSummary?.trim()),
    ["---", ...immediate, "---"].join("\n"),
    situation === undefined ? "" : `${situation.trim()}\n~${name}>`,
  ];
  return sections.filter((section) => section !== "").join("\n\n");
}

function titled(heading: string, text: string | undefined): string {
  return text === undefined || text === "" ? "" : `${heading}\n${text}`;
}
