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

/** A session of opencode as `opencode export` writes it: `info`, and messages with their `info` and parts. */
export function readOpencode(value: unknown, place: string): Conversation {
  const { info, messages } = isRecord(value) ? value : {};
  if (!isRecord(info) || !Array.isArray(messages)) throw refused(place, "write an object with info and messages");
  const leftOut = createLeftOut();
  const turns = tablesIn(messages).flatMap((message) => turnsOf(message, leftOut));
  const parent_id = textIn(info.parentID);
  return {
    source_id: sourceIdFrom(info.id, () => value),
    ...(parent_id === undefined ? { labels: {} } : { parent_id, labels: { agent: "sub-agent" } }),
    cwd: textIn(info.directory),
    ...joinTurns(turns, leftOut),
    leftOut: leftOut.sentences(),
  };
}

function turnsOf({ info, parts }: Fields, leftOut: LeftOut): readonly Turn[] {
  if (!isRecord(info)) return [];
  const time = isRecord(info.time) ? info.time : {};
  const created_at = timeFrom(time.created);
  const ref = textIn(info.id);
  const own = tablesIn(parts);
  if (info.role === "user") {
    // The request for a compaction says nothing; the summary answers it.
    if (own.some(({ type }) => type === "compaction")) return [];
    const content = own.flatMap((part) => {
      if (part.type === "text") return [{ type: "text" as const, text: String(part.text ?? "") }];
      if (part.type === "file") return [mediaBlock({ url: part.url, type: part.mime, name: part.filename }, leftOut)];
      leftOut.add(`parts of the type ${String(part.type).slice(0, 40)}`);
      return [];
    });
    return [{ by: "user", content: contentFrom(content), created_at, ref }];
  }
  const model = textIn(info.modelID);
  if (info.summary === true) {
    const summary = own.map((part) => (part.type === "text" ? (textIn(part.text) ?? "") : "")).join("\n");
    return [{ by: "compaction", summary: summary.trim(), model, created_at, ref }];
  }
  const turns = own.flatMap((part) => partTurns(part, { model, created_at, ref, leftOut }));
  const failed = isRecord(info.error) ? info.error : undefined;
  if (failed !== undefined) leftOut.add(`errors of the model: ${String(failed.name).slice(0, 60)}`);
  return turns;
}

interface PartOf {
  readonly model: string | undefined;
  readonly created_at: string | undefined;
  readonly ref: string | undefined;
  readonly leftOut: LeftOut;
}

function partTurns(part: Fields, { model, created_at, ref, leftOut }: PartOf): readonly Turn[] {
  const said = (blocks: Block[]): readonly Turn[] => [{ by: "assistant", blocks, model, created_at, ref }];
  switch (part.type) {
    case "text":
      return said(textBlock(part.text));
    case "reasoning":
      return said(reasoningBlock(textIn(part.text) ?? ""));
    case "tool": {
      const state = isRecord(part.state) ? part.state : {};
      const time = isRecord(state.time) ? state.time : {};
      const call = said([callBlock(part.callID, part.tool, state.input)]);
      if (state.status !== "completed" && state.status !== "error") return call;
      const is_error = state.status === "error";
      const text = resultText((is_error ? state.error : state.output) ?? "");
      const media = tablesIn(state.attachments).map(({ url, mime, filename }) =>
        mediaBlock({ url, type: mime, name: filename }, leftOut),
      );
      const content = contentFrom([{ type: "text", text }, ...media]);
      const at = timeFrom(time.end) ?? created_at;
      return [...call, { by: "tool", result: { tool_use_id: String(part.callID), content, is_error }, created_at: at }];
    }
    case "step-start":
    case "step-finish":
      return [];
    default:
      leftOut.add(`parts of the type ${String(part.type).slice(0, 40)}`);
      return [];
  }
}

const ID = /^[A-Za-z0-9_-]{1,100}$/;
const FILES_MAX = 100_000;

/** The files of opencode's storage folder, as far as they are needed. */
export interface Folder {
  /** The names of JSON files in a folder below it; none if it is not there. */
  list(path: string): Promise<readonly string[]>;
  read(path: string): Promise<unknown>;
}

/** A session file in opencode's storage folder together with its messages and parts, as an export has them. */
export async function gatherOpencode(info: Fields, storage: Folder, place: string): Promise<unknown> {
  const { id } = info;
  if (typeof id !== "string" || !ID.test(id)) throw refused(place, "id: it is no id of a session of opencode");
  const names = await storage.list(`message/${id}`);
  if (names.length > FILES_MAX) throw refused(place, `it has more than ${FILES_MAX} messages`);
  const messages: object[] = [];
  for (const name of names.toSorted()) {
    const message = await storage.read(`message/${id}/${name}`);
    const key = isRecord(message) ? message.id : undefined;
    if (typeof key !== "string" || !ID.test(key)) throw refused(place, `message/${id}/${name}: id: it is no id`);
    const parts: unknown[] = [];
    for (const part of (await storage.list(`part/${key}`)).toSorted()) {
      parts.push(await storage.read(`part/${key}/${part}`));
    }
    messages.push({ info: message, parts });
  }
  return { info, messages };
}
