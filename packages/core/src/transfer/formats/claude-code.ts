import { isRecord } from "../../contract/json.ts";
import type { ContentBlock, StopReason } from "../../contract/message.ts";
import {
  type Block,
  type Conversation,
  callBlock,
  contentFrom,
  createLeftOut,
  type Fields,
  joinTurns,
  type LeftOut,
  mediaBlock,
  reasoningBlock,
  resultText,
  sourceIdFrom,
  type Turn,
  tablesIn,
  textBlock,
  textIn,
  textOf,
  timeFrom,
} from "./conversation.ts";
import type { ForeignLine } from "./foreign-lines.ts";

/** One conversation of a file: the main one, or that of a sub-agent. */
interface Thread {
  readonly turns: Turn[];
  readonly leftOut: LeftOut;
  /** The id of the sub-agent; undefined for the main one. */
  readonly agent: string | undefined;
  sessionId: string | undefined;
  cwd: string | undefined;
  /** The task of a sub-agent, by which the call that started it is found. */
  task: string | undefined;
  boundary: "threshold" | "manual" | undefined;
}

/**
 * A session file of Claude Code: its lines in their order. Parents of lines are not followed: parallel calls branch there,
 * and a path through them would lose results. Lines of sub-agents form conversations of their own.
 */
export async function readClaudeCode(
  lines: AsyncIterable<ForeignLine>,
  { stem }: { readonly stem: string },
): Promise<readonly Conversation[]> {
  const threads = new Map<string, Thread>();
  const sideOf = new Map<string, string>();
  const calls: { readonly id: string; readonly input: Fields }[] = [];
  const startedBy = new Map<string, string>();
  const seen = new Set<string>();
  const main = threadOf(undefined);
  threads.set("", main);
  for await (const line of lines) {
    if ("problem" in line) {
      main.leftOut.add(line.problem);
      continue;
    }
    const { fields } = line;
    const uuid = textIn(fields.uuid);
    if (uuid !== undefined && seen.has(uuid)) continue;
    if (uuid !== undefined) seen.add(uuid);
    const side = fields.isSidechain === true ? sideChainOf(fields, sideOf) : "";
    if (uuid !== undefined && side !== "") sideOf.set(uuid, side);
    const thread = threads.get(side) ?? threadOf(side);
    threads.set(side, thread);
    thread.sessionId ??= textIn(fields.sessionId);
    thread.cwd ??= textIn(fields.cwd);
    const { message, toolUseResult: ended } = fields;
    for (const block of isRecord(message) ? tablesIn(message.content) : []) {
      if (block.type === "tool_use" && isRecord(block.input)) calls.push({ id: String(block.id), input: block.input });
      const agent = isRecord(ended) ? textIn(ended.agentId) : undefined;
      if (block.type === "tool_result" && agent !== undefined) startedBy.set(agent, String(block.tool_use_id));
    }
    readLine(thread, fields);
  }
  const own = UUID.test(stem) ? stem : undefined;
  return [...threads.values()].flatMap(({ turns, leftOut, agent, sessionId, cwd, task }): Conversation[] => {
    if (turns.length === 0 && (agent !== undefined || threads.size > 1)) return [];
    const session = own ?? sourceIdFrom(sessionId, () => turns);
    const joined = joinTurns(turns, leftOut);
    const about = { cwd: cwd ?? main.cwd, ...joined, leftOut: leftOut.sentences() };
    if (agent === undefined) return [{ source_id: session, labels: {}, ...about }];
    const call = startedBy.get(agent) ?? calls.find(({ input }) => input.prompt === task && task !== undefined)?.id;
    const type = textIn(calls.find(({ id }) => id === call)?.input.subagent_type);
    const labels = { agent: type ?? "sub-agent", ...(call === undefined ? {} : { parent_call: call }) };
    return [{ source_id: `${session}/${agent}`, parent_id: session, labels, ...about }];
  });
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

function threadOf(agent: string | undefined): Thread {
  const leftOut = createLeftOut();
  return { turns: [], leftOut, agent, sessionId: undefined, cwd: undefined, task: undefined, boundary: undefined };
}

/** The name of a sub-agent's conversation: its id, or the first of its lines. */
function sideChainOf({ agentId, parentUuid, uuid }: Fields, sideOf: ReadonlyMap<string, string>): string {
  return textIn(agentId) ?? sideOf.get(String(parentUuid)) ?? String(uuid);
}

function readLine(thread: Thread, fields: Fields): void {
  const { turns, leftOut } = thread;
  const created_at = timeFrom(fields.timestamp);
  const { type, message, attachment } = fields;
  if (type === "user" && isRecord(message)) {
    const content = userContent(message.content, leftOut);
    if (fields.isCompactSummary === true) {
      turns.push({ by: "compaction", summary: textOf(content), trigger: thread.boundary, created_at });
      thread.boundary = undefined;
      return;
    }
    thread.task ??= textOf(content);
    for (const block of tablesIn(message.content)) {
      if (block.type !== "tool_result") continue;
      const result = { tool_use_id: String(block.tool_use_id), content: resultContent(block.content, leftOut) };
      turns.push({ by: "tool", result: { ...result, is_error: block.is_error === true }, created_at });
    }
    turns.push({ by: "user", content, created_at });
  } else if (type === "assistant" && isRecord(message)) {
    const model = textIn(message.model);
    const blocks = answerBlocks(message.content, leftOut);
    turns.push({ by: "assistant", blocks, model, stop: stopFrom(message.stop_reason), created_at });
  } else if (type === "system" && fields.subtype === "compact_boundary") {
    const facts = isRecord(fields.compactMetadata) ? fields.compactMetadata : {};
    thread.boundary = facts.trigger === "manual" ? "manual" : "threshold";
  } else if (type === "attachment" && isRecord(attachment) && attachment.type === "queued_command") {
    turns.push({ by: "user", content: userContent(attachment.prompt, leftOut), created_at });
  } else {
    const subtype = textIn(fields.subtype) ?? (isRecord(attachment) ? textIn(attachment.type) : undefined);
    leftOut.add(`entries of the type ${[String(type), ...(subtype ? [subtype] : [])].join(" ").slice(0, 60)}`);
  }
}

const STOPS: Readonly<Record<string, StopReason>> = {
  end_turn: "end_turn",
  tool_use: "tool_use",
  max_tokens: "max_tokens",
  stop_sequence: "stop_sequence",
  refusal: "content_filter",
};

function stopFrom(given: unknown): StopReason | undefined {
  return typeof given === "string" && Object.hasOwn(STOPS, given) ? STOPS[given] : undefined;
}

/** What a user says; results of tools beside it are read apart. */
function userContent(content: unknown, leftOut: LeftOut): string | ContentBlock[] {
  if (typeof content === "string") return content;
  return contentFrom(
    tablesIn(content).flatMap((block) => (block.type === "tool_result" ? [] : [partOf(block, leftOut)])),
  );
}

function resultContent(content: unknown, leftOut: LeftOut): string | ContentBlock[] {
  if (!Array.isArray(content)) return content === undefined || content === null ? "" : resultText(content);
  return contentFrom(
    content.map((block: unknown) =>
      isRecord(block) ? partOf(block, leftOut) : { type: "text", text: resultText(block) },
    ),
  );
}

function partOf(block: Fields, leftOut: LeftOut): ContentBlock {
  if (typeof block.text === "string") return { type: "text", text: block.text };
  const { source } = block;
  if (!isRecord(source)) return { type: "text", text: resultText(block) };
  if (source.type === "text" && typeof source.data === "string") return { type: "text", text: source.data };
  return mediaBlock({ url: source.url, data: source.data, type: source.media_type, name: block.title }, leftOut);
}

function answerBlocks(content: unknown, leftOut: LeftOut): readonly Block[] {
  if (typeof content === "string") return textBlock(content);
  return tablesIn(content).flatMap((block): Block[] => {
    switch (block.type) {
      case "text":
        return textBlock(block.text);
      case "thinking":
        return reasoningBlock(String(block.thinking ?? ""));
      case "redacted_thinking":
        leftOut.add("reasoning that only its provider can read");
        return [];
      case "tool_use":
        return [callBlock(block.id, block.name, block.input)];
      default:
        return [
          { block_type: "server_tool_content", data: { name: String(block.name ?? block.type), content: block } },
        ];
    }
  });
}
