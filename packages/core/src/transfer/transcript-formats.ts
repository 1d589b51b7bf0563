import { blockText, type Content, type Message } from "../contract/message.ts";
import type { OperationOutput } from "../contract/operations.ts";
import type { SessionInfo } from "../contract/session-info.ts";
import { chatMessages } from "../contract/wire/openai.ts";
import type { Dispatch } from "../runtime/dispatch.ts";
import { asBlocks, contentText } from "../turn/tokens.ts";
import { agentPages, logPages } from "./session-lines.ts";

/** Transcripts in the formats of other programs. */

type Placed = Message & { readonly seq?: number };

export function asChatMessages(messages: readonly Message[]): readonly object[] {
  return messages.flatMap(chatMessages);
}

interface SharedTurn {
  readonly from: "system" | "human" | "gpt" | "function_call" | "observation";
  readonly value: string;
}

/** The messages in ShareGPT form: text only; calls and results are turns of their own. */
export function asSharedTurns(messages: readonly Message[]): readonly SharedTurn[] {
  return messages.flatMap(sharedTurns);
}

function sharedTurns(message: Message): readonly SharedTurn[] {
  switch (message.role) {
    case "system":
      return [{ from: "system", value: message.content }];
    case "system_notice":
      return [{ from: "human", value: `[system notice: ${message.kind}]\n${message.body ?? ""}`.trimEnd() }];
    case "user":
      return [{ from: "human", value: contentText(message.content) }];
    case "tool_results":
      return message.results.map(({ content }) => ({ from: "observation", value: contentText(content) }));
    case "block_assistant": {
      const text = message.blocks.map((block) => (block.block_type === "text" ? block.data.text : "")).join("");
      const calls = message.blocks.filter((block) => block.block_type === "tool_use");
      return [
        ...(text === "" ? [] : [{ from: "gpt" as const, value: text }]),
        ...calls.map(({ data: { name, args } }) => ({
          from: "function_call" as const,
          value: JSON.stringify({ name, arguments: args }),
        })),
      ];
    }
  }
}

/** A session as Markdown; tool output is fenced so that it cannot end the fence. */
export function asMarkdown(info: Pick<SessionInfo, "session_id" | "model" | "title">, said: readonly Placed[]): string {
  const head = [
    `# ${oneLine(info.title) || "A session"}`,
    `Session \`${info.session_id}\`, model ${oneLine(info.model)}.`,
  ];
  return `${[...head, ...said.flatMap(markdownOf)].join("\n\n")}\n`;
}

function markdownOf(message: Placed): readonly string[] {
  const head = (who: string): string => {
    const seq = message.seq === undefined ? "" : ` · seq ${message.seq}`;
    return `## ${who} · ${message.created_at}${seq}`;
  };
  switch (message.role) {
    case "system":
      return [head("System"), fenced(message.content)];
    case "system_notice":
      return [head(`Notice: ${oneLine(message.kind)}`), fenced(message.body ?? "")];
    case "user":
      return [head("User"), ...asBlocks(message.content).map(blockText)];
    case "tool_results":
      return [
        head("Results"),
        ...message.results.flatMap(({ tool_use_id, content, is_error }) => [
          `\`${oneLine(tool_use_id)}\`${is_error ? " failed" : ""}:`,
          fenced(contentText(content)),
        ]),
      ];
    case "block_assistant":
      return [head("Assistant"), ...message.blocks.map(assistantBlock).filter((text) => text !== "")];
  }
}

function assistantBlock(block: Extract<Message, { role: "block_assistant" }>["blocks"][number]): string {
  switch (block.block_type) {
    case "text":
      return block.data.text;
    case "reasoning":
      return block.data.text === "" ? "" : `_Reasoning_\n\n${fenced(block.data.text)}`;
    case "tool_use":
      return `Calls **${oneLine(block.data.name)}** (\`${oneLine(block.data.id)}\`):\n\n${fenced(JSON.stringify(block.data.args, undefined, 2), "json")}`;
    case "server_tool_content":
      return `Result of **${oneLine(block.data.name)}**:\n\n${fenced(JSON.stringify(block.data.content, undefined, 2) ?? "", "json")}`;
    case "image":
      return `[image: ${block.data.media_type}]`;
  }
}

/** A text in a fence longer than any inside it. */
export function fenced(text: string, language = ""): string {
  const longest = Math.max(2, ...(text.match(/`{3,}/g) ?? []).map((fence) => fence.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}

const LINE_CHARS_MAX = 200;

function oneLine(text: string): string {
  return text
    .slice(0, LINE_CHARS_MAX)
    .replace(/[\s`]+/g, " ")
    .trim();
}

/** Content with its blobs inlined: `read` returns the bytes of a blob, or nothing if it is gone. */
export async function withBlobs(
  content: Content,
  read: (blobId: string) => Promise<string | undefined>,
): Promise<Content> {
  if (typeof content === "string") return content;
  return Promise.all(
    content.map(async (block) => {
      if (block.type === "text" || block.source !== "blob") return block;
      const data = await read(block.blob_id);
      const { blob_id: _id, size: _size, ...rest } = block;
      return data === undefined ? block : { ...rest, source: "inline" as const, data };
    }),
  );
}

export interface Mention {
  readonly session_id?: string;
  readonly agent?: string;
  readonly seq: number;
  readonly time: string;
  /** The role of the message, or the kind of the entry. */
  readonly role: string;
  readonly text: string;
  /** The blob with the text, if it is too long for a message. */
  readonly blob_id?: string;
}

interface Looking {
  readonly dispatch: Dispatch;
  readonly signal: AbortSignal;
  /** Ignores case and forms of accents. */
  readonly subject: string;
}

type Page = OperationOutput<"exportAgent">;

/** All entries of a session's log that contain a text, also rewritten, compacted or referenced content. */
export async function* mentionsInSession(looking: Looking, session_id: string): AsyncGenerator<Mention> {
  const { dispatch, signal, subject } = looking;
  const known = new Set<string>();
  for await (const page of logPages({ dispatch, session_id, signal })) {
    for (const mention of mentionsIn(page, subject)) yield { session_id, ...mention };
    const place = page.entries[0];
    for (const blob_id of page.blob_ids) {
      if (known.has(blob_id) || place === undefined) continue;
      known.add(blob_id);
      const text = await textOfBlob(looking, blob_id);
      if (text === undefined || !includes(text, subject)) continue;
      const named = page.entries.find(({ body }) => JSON.stringify(body).includes(blob_id)) ?? place;
      yield { session_id, seq: named.seq, time: timeOf(named), role: "blob", text, blob_id };
    }
  }
}

const TEXTUAL = /^(?:text\/|application\/(?:json|xml|yaml))/;

async function textOfBlob({ dispatch, signal }: Looking, blob_id: string): Promise<string | undefined> {
  const blob = await dispatch("readBlob", { blob_id }, { signal }).catch((thrown: unknown) => {
    if (signal.aborted) throw thrown;
    return undefined;
  });
  if (blob === undefined || !TEXTUAL.test(blob.media_type)) return undefined;
  return Buffer.from(blob.data, "base64").toString("utf8");
}

/** All entries of an agent's log that contain a text. */
export async function* mentionsOfAgent(looking: Looking, agent: string): AsyncGenerator<Mention> {
  for await (const page of agentPages({ ...looking, agent }))
    for (const mention of mentionsIn(page, looking.subject)) yield { agent, ...mention };
}

function* mentionsIn({ entries }: Pick<Page, "entries">, subject: string): Generator<Mention> {
  for (const entry of entries) {
    for (const { role, text } of textsIn(entry.body, String(entry.body.kind))) {
      if (includes(text, subject)) yield { seq: entry.seq, time: timeOf(entry), role, text };
    }
  }
}

function timeOf({ timestamp_ms }: { readonly timestamp_ms: number }): string {
  return new Date(timestamp_ms).toISOString();
}

/** Every text in a value with its message's role, for entries of any kind. */
function* textsIn(value: unknown, role: string): Generator<{ readonly role: string; readonly text: string }> {
  if (typeof value === "string") yield { role, text: value };
  if (typeof value !== "object" || value === null) return;
  const own = "role" in value && typeof value.role === "string" ? value.role : role;
  for (const inner of Object.values(value)) yield* textsIn(inner, own);
}

function includes(text: string, subject: string): boolean {
  return folded(text).includes(folded(subject));
}

function folded(text: string): string {
  return text.normalize("NFKC").toLowerCase();
}
