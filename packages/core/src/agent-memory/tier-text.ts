import { headOf } from "../state/transcript-text.ts";
import { sentencesIn } from "../text/sentences.ts";

interface Candidate {
  readonly text: string;
  readonly order: number;
  readonly value: number;
}

/** The largest share of a summary that one sentence may take. */
const SENTENCE_SHARE = 0.4;
const WORD = /[\p{L}\p{N}]+/gu;

/**
 * Summarises texts, oldest first, by their own sentences: the very first, so that it reaches back to the beginning,
 * then from each period what is said only there.
 */
export function extractTier(texts: readonly string[], charsMax: number): string {
  const candidates = candidatesIn(texts, Math.floor(charsMax * SENTENCE_SHARE));
  const [first, ...others] = candidates;
  if (first === undefined) return "";
  const chosen = [first];
  let left = charsMax - first.text.length;
  const average = candidates.reduce((sum, { text }) => sum + text.length, 0) / candidates.length;
  const stretches = stretchesOf(others, Math.max(1, Math.floor(left / (average + 1))));
  // The best of each period, then the second best of each, until the room is used.
  for (let round = 0; stretches.some((stretch) => stretch.length > round); round += 1) {
    for (const stretch of stretches) {
      const next = stretch[round];
      if (next === undefined || next.text.length + 1 > left) continue;
      chosen.push(next);
      left -= next.text.length + 1;
    }
  }
  return chosen
    .sort((a, b) => a.order - b.order)
    .map(({ text }) => text)
    .join("\n");
}

/** Every sentence once, scored by what only it says. */
function candidatesIn(texts: readonly string[], bytesMax: number): readonly Candidate[] {
  const sentences = texts.flatMap((text) =>
    text.split("\n").flatMap((line) => sentencesIn(line).map((piece) => piece.text.trim())),
  );
  const unique = [...new Set(sentences)].filter((sentence) => /[\p{L}\p{N}]/u.test(sentence));
  const holders = new Map<string, number>();
  const words = unique.map((sentence) => new Set(sentence.toLowerCase().match(WORD)));
  for (const own of words) for (const word of own) holders.set(word, (holders.get(word) ?? 0) + 1);
  return unique.map((sentence, order) => {
    const own = [...(words[order] ?? [])];
    const rarity = own.reduce((sum, word) => sum + Math.log(unique.length / (holders.get(word) ?? 1)), 0);
    return { text: shortened(sentence, bytesMax), order, value: rarity / Math.sqrt(own.length) };
  });
}

/** One line, so that the next summary can read it; a long sentence is cut. */
function shortened(sentence: string, bytesMax: number): string {
  return sentence.length <= bytesMax ? sentence : `${headOf(sentence, Math.max(1, bytesMax - 4)).trimEnd()} …`;
}

/** Splits the candidates into periods, the best of each first. */
function stretchesOf(candidates: readonly Candidate[], count: number): readonly (readonly Candidate[])[] {
  const size = candidates.length / count;
  return Array.from({ length: count }, (_, at) =>
    candidates
      .slice(Math.round(at * size), Math.round((at + 1) * size))
      .sort((a, b) => b.value - a.value || a.order - b.order),
  );
}

/** Headings of the two summaries in every prompt. */
export const LONGTERM_HEADING = "## Older Memories (Summary)";
export const RECENT_HEADING = "## Recent Past (Summary)";
const NOTES_HEADING = "## Relevant Private Notes";
const COMMANDS_HEADING = "BASIC COMMANDS:";
const MEMORIES_RULE = "---";
const PROMPT_LINES: readonly string[] = [
  LONGTERM_HEADING,
  RECENT_HEADING,
  NOTES_HEADING,
  COMMANDS_HEADING,
  MEMORIES_RULE,
];

/** A summary with a line of the prompt would present what follows as memories, notes or commands. */
export function withoutPromptLines(summary: string): string {
  const lines = summary.split("\n");
  const own = lines.filter((line) => !PROMPT_LINES.includes(line.trim()));
  return own.length === lines.length ? summary : own.join("\n").trim();
}

const TASK = "Summarize these memories in 2-3 sentences:";
const CUE = "SUMMARY:";

/** The prompt for a summary, oldest memory first: a base model continues it, a chat model answers it. */
export function summaryPrompt(memories: readonly string[]): string {
  return `${TASK}\n\n${memories.map((memory) => `${memory.trim()}\n`).join("")}\n${CUE}\n`;
}

/** What a base model writes when it continues after its summary. */
export const PROMPT_MARKS: readonly string[] = [TASK, CUE];

/** The parts of an agent's prompt. Missing and empty parts have no heading. */
export interface AgentPromptParts {
  readonly name: string;
  /** Follows "You are NAME." */
  readonly profile?: string | undefined;
  readonly commands?: readonly string[] | undefined;
  readonly notes?: readonly string[] | undefined;
  readonly longtermSummary?: string | undefined;
  readonly recentSummary?: string | undefined;
  /** The newest memories in full, oldest first. */
  readonly immediate: readonly string[];
  /** The current place; the prompt ends with a line to continue from. */
  readonly situation?: string | undefined;
}

/** The prompt about an agent's life for base and chat models: identity, knowledge, then recent memories. */
export function assembleAgentPrompt(parts: AgentPromptParts): string {
  const { name, profile, commands = [], notes = [], longtermSummary, recentSummary, immediate, situation } = parts;
  const sections = [
    `You are ${name}. ${profile?.trim() ?? ""}`.trim(),
    commands.length === 0 ? "" : [COMMANDS_HEADING, ...commands.map((command) => `- ${command.trim()}`)].join("\n"),
    titled(NOTES_HEADING, notes.map((note) => note.trim()).join("\n\n")),
    titled(LONGTERM_HEADING, longtermSummary?.trim()),
    titled(RECENT_HEADING, recentSummary?.trim()),
    [MEMORIES_RULE, ...immediate, MEMORIES_RULE].join("\n"),
    situation === undefined ? "" : `${situation.trim()}\n~${name}>`,
  ];
  return sections.filter((section) => section !== "").join("\n\n");
}

function titled(heading: string, text: string | undefined): string {
  return text === undefined || text === "" ? "" : `${heading}\n${text}`;
}
