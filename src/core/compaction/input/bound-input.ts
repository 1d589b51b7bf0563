import type { Message } from "../../../contract/message.ts";
import { textOfContent } from "../../message-text.ts";
import { estimateTokens } from "../../tokens.ts";
import { bytesOf, cutText } from "./cut-text.ts";
import { excerptOf, SEPARATOR } from "./excerpt.ts";

const BYTES_PER_TOKEN = 4;
const SYSTEM_SHARE = 1 / 4;
const SUMMARY_SHARE = 1 / 3;

/**
 * The messages if they fit, else the system message and one user message with an excerpt of the rest: in plain text
 * there are no tool pairs a cut could break. The estimate of the result is never over `tokensMax`.
 */
export function boundInput(messages: readonly Message[], tokensMax: number): Message[] {
  if (estimateTokens(messages) <= tokensMax) return [...messages];
  const [first] = messages;
  if (first?.role !== "system") return excerptMessage(messages, { tokens: tokensMax, tokensMax });
  const system = boundSystem(first, Math.floor(tokensMax * SYSTEM_SHARE));
  const tokens = tokensMax - estimateTokens(system);
  return [...system, ...excerptMessage(messages.slice(1), { tokens, tokensMax })];
}

type SystemMessage = Extract<Message, { role: "system" }>;

const SHRINK = 0.9;

/** None where not even the envelope fits: a bound that small is nobody's window. */
function boundSystem(system: SystemMessage, tokensMax: number): SystemMessage[] {
  if (estimateTokens([system]) <= tokensMax) return [system];
  // Tried, not computed: a system message is estimated as JSON, and how much its escapes add only its cut can tell.
  for (let bytes = tokensMax * BYTES_PER_TOKEN; bytes > 0; bytes = Math.floor(bytes * SHRINK)) {
    const cut = { ...system, content: cutText(system.content, bytes) };
    if (estimateTokens([cut]) <= tokensMax) return cut.content === "" ? [] : [cut];
  }
  return [];
}

interface Bound {
  /** What this message may take. */
  readonly tokens: number;
  /** What the whole request may take. */
  readonly tokensMax: number;
}

function excerptMessage(messages: readonly Message[], { tokens, tokensMax }: Bound): Message[] {
  const [first] = messages;
  const last = messages.at(-1);
  if (last === undefined) return [];
  const bytesMax = Math.max(0, Math.floor(tokens) * BYTES_PER_TOKEN);
  const summary = cutText(earlierSummary(first), Math.floor(tokensMax * BYTES_PER_TOKEN * SUMMARY_SHARE));
  const excerpt =
    summary === ""
      ? excerptOf(messages, bytesMax)
      : excerptOf(messages.slice(1), bytesMax - bytesOf(summary) - SEPARATOR.length);
  const parts = [summary, excerpt].filter((part) => part !== "");
  // Cut once more for bounds so small that the notes alone are over them.
  const content = cutText(parts.join(SEPARATOR), bytesMax);
  return content === "" ? [] : [{ role: "user", content, created_at: last.created_at }];
}

const SUMMARY_START = "[Context compacted]";

/** It speaks for everything before it, so it goes first; empty when there is none. */
function earlierSummary(first: Message | undefined): string {
  if (first?.role !== "user") return "";
  const text = textOfContent(first.content);
  return text.startsWith(SUMMARY_START) ? text : "";
}
