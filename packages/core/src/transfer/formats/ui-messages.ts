import { isRecord } from "../../contract/json.ts";
import { refused } from "../portable-log.ts";
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
  timeFrom,
} from "./conversation.ts";

/** Messages of a page of the AI SDK: a list, or an object with `messages`, each message with its parts. */
export function readUiMessages(value: unknown, place: string): Conversation {
  const list = isRecord(value) ? value.messages : value;
  if (!Array.isArray(list)) throw refused(place, "messages: write a list of messages with parts");
  const leftOut = createLeftOut();
  const turns = list.flatMap((given: unknown, at): readonly Turn[] => {
    if (isRecord(given) && typeof given.role === "string") return turnsOf(given, leftOut);
    throw refused(`${place}: messages[${at}]`, "role: write system, user or assistant");
  });
  const source_id = sourceIdFrom(isRecord(value) ? (value.id ?? value.chatId) : undefined, () => value);
  return { source_id, labels: {}, ...joinTurns(turns, leftOut), leftOut: leftOut.sentences() };
}

function turnsOf(message: Fields, leftOut: LeftOut): readonly Turn[] {
  const metadata = isRecord(message.metadata) ? message.metadata : {};
  const created_at = timeFrom(message.createdAt ?? metadata.createdAt);
  const model = textIn(metadata.model);
  // Before messages had parts, they had a text and the calls beside it.
  const parts = Array.isArray(message.parts)
    ? tablesIn(message.parts)
    : [{ type: "text", text: message.content }, ...tablesIn(message.toolInvocations).map(asPart)];
  if (message.role === "system") {
    return [{ by: "system", text: parts.map(({ text }) => textIn(text) ?? "").join("\n"), created_at }];
  }
  if (message.role === "user") {
    const content = parts.map((part) => {
      if (part.type === "text") return { type: "text" as const, text: String(part.text ?? "") };
      return mediaBlock({ url: part.url, type: part.mediaType ?? part.mimeType, name: part.filename }, leftOut);
    });
    return [{ by: "user", content: contentFrom(content), created_at }];
  }
  return parts.flatMap((part): readonly Turn[] => {
    const said = (blocks: Block[]): readonly Turn[] => [{ by: "assistant", blocks, model, created_at }];
    const kind = String(part.type);
    if (kind === "text") return said(textBlock(part.text));
    if (kind === "reasoning") return said(reasoningBlock(textIn(part.text) ?? textIn(part.reasoning) ?? ""));
    const call = kind === "tool-invocation" && isRecord(part.toolInvocation) ? asPart(part.toolInvocation) : part;
    if (typeof call.toolCallId === "string") return callTurns(call, said, created_at);
    if (kind === "file") {
      const block = mediaBlock({ url: part.url, type: part.mediaType, name: part.filename }, leftOut);
      if (block.type === "image" && block.source === "inline") {
        return said([{ block_type: "image", data: { media_type: block.media_type, data: block.data } }]);
      }
    }
    if (kind !== "step-start") leftOut.add(`parts of the type ${kind.slice(0, 40)}`);
    return [];
  });
}

/** A call in the older form. */
function asPart({ toolName, args, result, ...call }: Fields): Fields {
  const ended = "result" in call || result !== undefined ? { state: "output-available", output: result } : {};
  return { ...call, type: "dynamic-tool", toolName, input: args, ...ended };
}

function callTurns(
  part: Fields,
  said: (blocks: Block[]) => readonly Turn[],
  created_at: string | undefined,
): readonly Turn[] {
  const { toolCallId: id, state, output, errorText, toolName } = part;
  const name = textIn(toolName) ?? String(part.type).replace(/^tool-/, "");
  const turns = said([callBlock(id, name, part.input ?? part.rawInput)]);
  const isError = state === "output-error" || state === "output-denied";
  if (state !== "output-available" && !isError) return turns;
  const content = isError ? (textIn(errorText) ?? "the call was denied") : resultText(output ?? "");
  return [...turns, { by: "tool", result: { tool_use_id: String(id), content, is_error: isError }, created_at }];
}
