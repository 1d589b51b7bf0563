import { readChat, readShared } from "./chat.ts";
import { readClaudeCode } from "./claude-code.ts";
import type { Conversation } from "./conversation.ts";
import type { ForeignLine } from "./foreign-lines.ts";
import { readOpencode } from "./opencode.ts";
import { readPi } from "./pi.ts";
import { readCodex, readResponses } from "./responses.ts";
import { readUiMessages } from "./ui-messages.ts";

interface Named {
  /** The name of the file without its folder and ending. */
  readonly stem: string;
}

/** A format of another program: how a file of it is known, and how it is read. */
export interface Format {
  readonly title: string;
  /** Whether a file of which this is the beginning has the format. */
  looksLike(head: string, name: string): boolean;
  /** Of files that are watched: which of the files below a folder are sessions. */
  readonly follows?: RegExp;
  /** For a file of lines; a line that cannot be read is one of what is left out. */
  readLines?(lines: AsyncIterable<ForeignLine>, named: Named): Promise<readonly Conversation[]>;
  /** For a file that is one value of JSON, or one on each line. */
  readValue?(value: unknown, place: string): Conversation;
}

const firstLine = (head: string): string => head.slice(0, head.includes("\n") ? head.indexOf("\n") : undefined);

/** Every format that is read, in the order in which they are tried. */
export const FORMATS = {
  pi: {
    title: "sessions of pi",
    looksLike: (head) => /"type"\s*:\s*"session"/.test(firstLine(head)),
    follows: /\.jsonl$/,
    readLines: readPi,
  },
  codex: {
    title: "rollouts of Codex",
    looksLike: (head, name) => /"type"\s*:\s*"session_meta"/.test(firstLine(head)) || /^rollout-.*\.jsonl$/.test(name),
    follows: /(?:^|\/)rollout-[^/]*\.jsonl$/,
    readLines: readCodex,
  },
  "claude-code": {
    title: "sessions of Claude Code",
    looksLike: (head) => /"(?:sessionId|leafUuid)"\s*:/.test(head) && /^\s*\{.*"type"\s*:/.test(head),
    follows: /\.jsonl$/,
    readLines: readClaudeCode,
  },
  opencode: {
    title: "sessions of opencode",
    looksLike: (head, name) =>
      /"info"\s*:\s*\{/.test(head) || (/^ses_.*\.json$/.test(name) && /"id"\s*:\s*"ses_/.test(head)),
    follows: /(?:^|\/)session\/[^/]+\/ses_[^/]*\.json$/,
    readValue: readOpencode,
  },
  sharegpt: {
    title: "conversations in ShareGPT's form",
    looksLike: (head) => /"(?:conversations|from)"\s*:/.test(head),
    readValue: readShared,
  },
  responses: {
    title: "items of OpenAI's Responses API",
    looksLike: (head) =>
      /"(?:input|output)"\s*:\s*\[\s*\{/.test(head) ||
      /^\s*\[\s*\{[^{}]*"type"\s*:\s*"(?:message|function_call)"/.test(head),
    readValue: readResponses,
  },
  "ui-messages": {
    title: "messages of the AI SDK's pages",
    looksLike: (head) => /"(?:parts|toolInvocations)"\s*:\s*\[/.test(head),
    readValue: readUiMessages,
  },
  openai: {
    title: "messages of chat completions",
    looksLike: (head) => /"(?:messages|role)"\s*:/.test(head),
    readValue: readChat,
  },
} satisfies Readonly<Record<string, Format>>;

export type FormatName = keyof typeof FORMATS;

// Each name is a key of the table.
export const FORMAT_NAMES = Object.keys(FORMATS) as readonly FormatName[];

export function formatOf(head: string, name: string): FormatName | undefined {
  return FORMAT_NAMES.find((format) => FORMATS[format].looksLike(head, name));
}
