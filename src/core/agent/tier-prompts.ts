/** Headings of the two summaries, wherever a model is shown them. */
export const LONGTERM_HEADING = "## Older Memories (Summary)";
export const RECENT_HEADING = "## Recent Past (Summary)";

const TASK = "Summarize these memories in 2-3 sentences:";
const CUE = "SUMMARY:";

/** The request for a summary: a text that a base model continues and a chat model answers. Oldest first. */
export function summaryPrompt(memories: readonly string[]): string {
  return `${TASK}\n\n${memories.map((memory) => `${memory.trim()}\n`).join("")}\n${CUE}\n`;
}

/** What a base model writes when it has said its summary and goes on all the same. */
export const PROMPT_MARKS: readonly string[] = [TASK, CUE];
