import { Buffer } from "node:buffer";
import { invalid } from "@rkat/core/contract/error";
import type { Content, ContentBlock } from "@rkat/core/contract/message";
import type { UiChatRequest, UiMessage, UiPart } from "@rkat/core/contract/wire/ui-chat";
import { partsOf, type Said } from "../openai/said.ts";
import { parseApprovalId } from "./ui-encoder.ts";

export interface News {
  /** The user's text; undefined where the page only sends results or answers to approvals. */
  readonly prompt: Content | undefined;
  readonly results: readonly PageResult[];
  readonly words: readonly ApprovalAnswer[];
  /** What the user said before, oldest first, as far as the page sent it. */
  readonly before: readonly string[];
  /** What the newest message stands in the place of: itself, to be answered again, or what it was before an edit. */
  readonly replaces: "same" | "edited" | undefined;
  readonly goesOn: string | undefined;
}

interface PageResult {
  readonly tool_use_id: string;
  readonly content: Content;
  readonly is_error: boolean;
}

interface ApprovalAnswer {
  readonly approval_id: string;
  readonly call: string;
  readonly decision: "allow" | "deny";
  readonly reason?: string;
}

/** Reads what is new in a conversation that a page sends whole. */
export function readNews({ messages, trigger, messageId }: UiChatRequest): News {
  const at = messages.length - 1;
  const last = messages[at];
  if (last === undefined || last.role === "system") {
    throw invalid(`messages[${at}]: the newest message must be the user's, or the assistant's with results of tools`);
  }
  const before = messages
    .slice(0, last.role === "user" ? at : messages.length)
    .flatMap((message) => (message.role === "user" ? [textOf(message)] : []));
  if (last.role === "user") {
    const prompt = contentOf(last, `messages[${at}]`);
    const isEdited = (messageId ?? undefined) !== undefined;
    const replaces = trigger === "regenerate-message" ? "same" : isEdited ? "edited" : undefined;
    const results = replaces === undefined ? resultsIn(messages[at - 1], at - 1) : [];
    return { prompt, results, words: [], before, replaces, goesOn: undefined };
  }
  if (trigger === "regenerate-message") {
    throw invalid(`messages[${at}]: to answer again, send the messages up to the one that is answered`);
  }
  const results = resultsIn(last, at);
  const words = lastStep(last).flatMap((part) => wordIn(part));
  if (results.length === 0 && words.length === 0) {
    throw invalid(`messages[${at}]: nothing is new in it: write a message of the user's, or results of tools`);
  }
  return { prompt: undefined, results, words, before, replaces: undefined, goesOn: last.id };
}

/** What was said before the newest message, for a session that begins with it; of its tools nothing is known here. */
export function saidBefore(messages: readonly UiMessage[]): readonly Said[] {
  const said: Said[] = [];
  for (const [at, message] of messages.slice(0, -1).entries()) {
    const isUsers = message.role === "user";
    const last = said.at(-1);
    const text = textOf(message);
    if (message.role === "system" || (!isUsers && text === "")) continue;
    // An answer follows a question, and a question without an answer was refused.
    if (isUsers && last?.role === "user") said.pop();
    if (isUsers) said.push({ role: "user", parts: partsOf(contentOf(message, `messages[${at}]`)) });
    else if (last?.role === "user") said.push({ role: "assistant", text, calls: [] });
  }
  return said.at(-1)?.role === "user" ? said.slice(0, -1) : said;
}

/** The words of a message, by which it is found again. */
function textOf({ parts }: UiMessage): string {
  return parts.flatMap((part) => (part.type === "text" && typeof part.text === "string" ? [part.text] : [])).join("\n");
}

function contentOf({ parts }: UiMessage, at: string): Content {
  const blocks = parts.flatMap((part, index) => blockOf(part, `${at}.parts[${index}]`));
  if (blocks.length === 0) throw invalid(`${at}.parts: write a text or a file`);
  return blocks.every((block) => block.type === "text") ? blocks.map(({ text }) => text).join("\n") : blocks;
}

function blockOf(part: UiPart, at: string): readonly ContentBlock[] {
  if (part.type === "text") {
    if (typeof part.text !== "string") throw invalid(`${at}.text: write a text`);
    return [{ type: "text", text: part.text }];
  }
  if (part.type === "file") return [fileOf(part, at)];
  // What a page keeps with a message for itself.
  if (part.type.startsWith("data-") || part.type.startsWith("source-")) return [];
  throw invalid(`${at}.type: in a message of the user's write text or file`);
}

const DATA_URL = /^data:([\w.+-]{1,100}\/[\w.+-]{1,100})(?:;charset=[\w-]{1,40})?;base64,([A-Za-z0-9+/]*={0,2})$/;

function fileOf({ url, mediaType, filename }: UiPart, at: string): ContentBlock {
  if (typeof url !== "string") throw invalid(`${at}.url: write a data: URL, or the address of an image`);
  const reported = typeof mediaType === "string" ? mediaType : undefined;
  if (/^https?:/i.test(url)) {
    if (reported?.startsWith("image/") !== true) throw invalid(`${at}.url: only images are taken by their address`);
    return { type: "image", source: "url", media_type: reported, url };
  }
  const [, inside, data] = DATA_URL.exec(url) ?? [];
  if (inside === undefined || data === undefined || data === "") {
    throw invalid(`${at}.url: write a data: URL like data:image/png;base64,…, or the address of an image`);
  }
  const media_type = reported ?? inside;
  if (media_type.startsWith("image/")) return { type: "image", source: "inline", media_type, data };
  const name = typeof filename === "string" && filename !== "" ? { name: plainName(filename) } : {};
  return { type: "file", source: "inline", media_type, data, ...name };
}

const NAME_BYTES_MAX = 255;

/** A name without folders, and no longer than one may be. */
function plainName(filename: string): string {
  const name = filename.replace(/^.*[/\\]/s, "");
  return Buffer.byteLength(name) <= NAME_BYTES_MAX ? name : name.slice(-60);
}

/** What tools of the page's gave in the newest step of a message; calls of the server's are its own. */
function resultsIn(message: UiMessage | undefined, at: number): readonly PageResult[] {
  if (message?.role !== "assistant") return [];
  return lastStep(message).flatMap((part) => {
    const { toolCallId, state, output, errorText, providerExecuted } = part;
    if (!isTool(part) || providerExecuted === true) return [];
    if (state !== "output-available" && state !== "output-error") return [];
    if (typeof toolCallId !== "string" || toolCallId === "") {
      throw invalid(`messages[${at}].parts: a tool's result lacks its toolCallId`);
    }
    const is_error = state === "output-error";
    return [{ tool_use_id: toolCallId, content: textValue(is_error ? errorText : output), is_error }];
  });
}

function textValue(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

function wordIn(part: UiPart): readonly ApprovalAnswer[] {
  const { approval, state } = part;
  if (!isTool(part) || state !== "approval-responded") return [];
  if (typeof approval !== "object" || approval === null || !("id" in approval) || !("approved" in approval)) return [];
  const { approval_id, call } = parseApprovalId(String(approval.id));
  const reason = "reason" in approval && typeof approval.reason === "string" ? { reason: approval.reason } : {};
  return [{ approval_id, call, decision: approval.approved === true ? "allow" : "deny", ...reason }];
}

function isTool({ type }: UiPart): boolean {
  return type === "dynamic-tool" || type.startsWith("tool-");
}

function lastStep({ parts }: UiMessage): readonly UiPart[] {
  return parts.slice(parts.findLastIndex(({ type }) => type === "step-start") + 1);
}
