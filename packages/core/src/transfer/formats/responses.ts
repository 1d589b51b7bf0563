import { isRecord } from "../../contract/json.ts";
import type { ContentBlock } from "../../contract/message.ts";
import { refused } from "../portable-log.ts";
import {
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

/** A rollout of Codex: the items of its conversation among other records; older files have bare items. */
export async function readCodex(
  lines: AsyncIterable<ForeignLine>,
  { stem }: { readonly stem: string },
): Promise<readonly Conversation[]> {
  const leftOut = createLeftOut();
  const turns: Turn[] = [];
  let meta: Fields | undefined;
  let model: string | undefined;
  for await (const line of lines) {
    if ("problem" in line) {
      leftOut.add(line.problem);
      continue;
    }
    const { type, timestamp, payload } = line.fields;
    const created_at = timeFrom(timestamp);
    // Before records had a payload, the first line was the header and each other one an item.
    if (!isRecord(payload)) {
      if (meta === undefined && type === undefined) meta = line.fields;
      else if (type !== undefined) turns.push(...itemTurns(line.fields, { created_at, model, leftOut }));
      continue;
    }
    switch (type) {
      case "session_meta":
        // A fork repeats the header of its source behind its own.
        meta ??= payload;
        break;
      case "turn_context":
        model = textIn(payload.model) ?? model;
        break;
      case "response_item":
        turns.push(...itemTurns(payload, { created_at, model, leftOut }));
        break;
      case "compacted":
        turns.push({ by: "compaction", summary: summaryIn(payload, leftOut), model, created_at });
        break;
      default:
        leftOut.add(`entries of the type ${[type, payload.type].map(String).join(" ").slice(0, 60)}`);
    }
  }
  const { instructions, base_instructions, cwd } = meta ?? {};
  if (instructions || base_instructions) leftOut.add("the system prompt of Codex");
  const own = stem.match(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i)?.[0];
  // Its system and developer messages are those of Codex, and no prompt of this runtime.
  const said = turns.map((turn): Turn => (turn.by === "system" ? { ...turn, by: "user", content: turn.text } : turn));
  return [
    {
      source_id: sourceIdFrom(meta?.id ?? own, () => turns),
      ...parentIn(meta ?? {}),
      cwd: textIn(cwd),
      ...joinTurns(said, leftOut),
      leftOut: leftOut.sentences(),
    },
  ];
}

function parentIn({ source }: Fields): Pick<Conversation, "parent_id" | "labels"> {
  const spawned = isRecord(source) && isRecord(source.subagent) ? source.subagent.thread_spawn : undefined;
  if (!isRecord(spawned)) return { labels: {} };
  const agent = textIn(spawned.agent_role) ?? textIn(spawned.agent_nickname) ?? "sub-agent";
  return { parent_id: textIn(spawned.parent_thread_id), labels: { agent } };
}

const UNREADABLE = "(Only the provider of the conversation can read the summary of this compaction.)";

function summaryIn({ message, replacement_history: kept }: Fields, leftOut: LeftOut): string {
  const own = textIn(message);
  if (own !== undefined) return own;
  leftOut.add("the summary of a compaction that only its provider can read");
  const texts = tablesIn(kept).flatMap(({ content }) => tablesIn(content).map(({ text }) => textIn(text) ?? ""));
  return [UNREADABLE, ...texts.filter((text) => text !== "")].join("\n\n");
}

/** Items of the Responses API: a list, a request with `input`, or a response with `output`. */
export function readResponses(value: unknown, place: string): Conversation {
  if (!Array.isArray(value) && !isRecord(value)) throw refused(place, "write a list of items, or an object with input");
  const leftOut = createLeftOut();
  const whole = isRecord(value) ? value : {};
  const lists = Array.isArray(value) ? [value] : [whole.input, whole.output];
  const created_at = timeFrom(typeof whole.created_at === "number" ? whole.created_at * 1_000 : undefined);
  const model = textIn(whole.model);
  const system = textIn(whole.instructions);
  const turns = lists.flatMap((list): Turn[] => {
    if (typeof list === "string") return [{ by: "user", content: list, created_at }];
    return tablesIn(list).flatMap((item) => itemTurns(item, { created_at, model, leftOut }));
  });
  const first: Turn[] = system === undefined ? [] : [{ by: "system", text: system }];
  const source_id = sourceIdFrom(whole.id, () => value);
  return { source_id, labels: {}, ...joinTurns([...first, ...turns], leftOut), leftOut: leftOut.sentences() };
}

interface ItemParts {
  readonly created_at: string | undefined;
  readonly model: string | undefined;
  readonly leftOut: LeftOut;
}

function itemTurns(item: Fields, { created_at, model, leftOut }: ItemParts): readonly Turn[] {
  const { type = "message", call_id, id } = item;
  const said = (blocks: ReturnType<typeof textBlock>): readonly Turn[] => [
    { by: "assistant", blocks, model, created_at },
  ];
  const called = (name: unknown, args: unknown): readonly Turn[] => said([callBlock(call_id ?? id, name, args)]);
  switch (type) {
    case "message":
      return [messageTurn(item, { created_at, model, leftOut })];
    case "reasoning": {
      const parts = [...tablesIn(item.summary), ...tablesIn(item.content)];
      const text = parts.map((part) => textIn(part.text) ?? "").filter((one) => one !== "");
      if (text.length === 0) leftOut.add("reasoning that only its provider can read");
      return said(reasoningBlock(text.join("\n\n")));
    }
    case "function_call":
      return called(item.name, item.arguments);
    case "custom_tool_call":
      return called(item.name, { input: item.input });
    case "local_shell_call":
      return called("local_shell", item.action);
    case "item_reference":
    case "ghost_snapshot":
    case "compaction":
    case "compaction_summary":
      leftOut.add(`items of the type ${type}`);
      return [];
    default: {
      const kind = String(type).slice(0, 60);
      if (!/_output$/.test(kind)) {
        const isCall = /_call$/.test(kind) && typeof call_id === "string";
        if (isCall) return called(kind, item.action ?? item.arguments ?? {});
        if (/_call$/.test(kind))
          return said([{ block_type: "server_tool_content", data: { name: kind, content: item } }]);
        leftOut.add(`items of the type ${kind}`);
        return [];
      }
      const { content, is_error } = outputOf(item.output, leftOut);
      return [{ by: "tool", result: { tool_use_id: String(call_id), content, is_error }, created_at }];
    }
  }
}

function messageTurn(item: Fields, { created_at, model, leftOut }: ItemParts): Turn {
  const content =
    typeof item.content === "string"
      ? item.content
      : contentFrom(tablesIn(item.content).map((part) => partOf(part, leftOut)));
  if (item.role === "assistant") return { by: "assistant", blocks: textBlock(textOf(content)), model, created_at };
  if (item.role === "user") return { by: "user", content, created_at };
  return { by: "system", text: textOf(content), created_at };
}

export function partOf(part: Fields, leftOut: LeftOut): ContentBlock {
  const text = part.text ?? part.refusal;
  if (typeof text === "string") return { type: "text", text };
  const { image_url: image, file = part } = part;
  const url = isRecord(image) ? image.url : image;
  if (url !== undefined) return mediaBlock({ url }, leftOut);
  const given = isRecord(file)
    ? { url: file.file_data, name: file.filename, type: file.media_type ?? file.mime_type }
    : {};
  return mediaBlock(
    { ...given, type: given.type ?? (given.url === undefined ? String(part.type) : undefined) },
    leftOut,
  );
}

/** What a tool returned: a text, parts, or an object with one of them and whether it succeeded. */
function outputOf(output: unknown, leftOut: LeftOut): { content: string | ContentBlock[]; is_error: boolean } {
  if (Array.isArray(output)) {
    return { content: contentFrom(tablesIn(output).map((part) => partOf(part, leftOut))), is_error: false };
  }
  if (!isRecord(output) || !("content" in output)) return { content: resultText(output ?? ""), is_error: false };
  const { content } = outputOf(output.content, leftOut);
  return { content, is_error: output.success === false };
}
