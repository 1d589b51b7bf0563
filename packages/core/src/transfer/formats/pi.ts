import { isRecord } from "../../contract/json.ts";
import type { ContentBlock } from "../../contract/message.ts";
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
  sourceIdFrom,
  type Turn,
  tablesIn,
  textBlock,
  textIn,
  textOf,
  timeFrom,
} from "./conversation.ts";
import type { ForeignLine } from "./foreign-lines.ts";

/**
 * A session file of pi: the branch that ends with its last entry, with compactions. What only other branches have becomes
 * a session for each of them.
 */
export async function readPi(
  lines: AsyncIterable<ForeignLine>,
  { stem }: { readonly stem: string },
): Promise<readonly Conversation[]> {
  const leftOut = createLeftOut();
  const entries: Fields[] = [];
  let header: Fields | undefined;
  for await (const line of lines) {
    if ("problem" in line) leftOut.add(line.problem);
    else if (header === undefined) header = line.fields;
    else entries.push(line.fields);
  }
  const source_id = sourceIdFrom(header?.id, () => stem);
  const cwd = textIn(header?.cwd);
  const branches = branchesOf(entries, leftOut);
  return branches.map((branch, at): Conversation => {
    const own = at === 0 ? leftOut : createLeftOut();
    const turns = branch.flatMap((entry) => turnsOf(entry, own));
    const first = textIn(branch[0]?.id) ?? String(at);
    const other = at === 0 ? { labels: {} } : { parent_id: source_id, labels: { branch: "yes" } };
    const id = at === 0 ? source_id : `${source_id}/${first}`;
    return { source_id: id, ...other, cwd, ...joinTurns(turns, own), leftOut: own.sentences() };
  });
}

/** The entries of the newest branch, then those of each other branch that no earlier one has. */
function branchesOf(entries: readonly Fields[], leftOut: LeftOut): readonly (readonly Fields[])[] {
  const byId = new Map(entries.flatMap((entry) => (typeof entry.id === "string" ? [[entry.id, entry] as const] : [])));
  // Older files have no parents and one branch.
  if (byId.size === 0) return [entries];
  const parents = new Set(entries.map(({ parentId }) => parentId));
  const met = new Set<Fields>();
  const walk = (leaf: Fields): readonly Fields[] => {
    const branch: Fields[] = [];
    let one: Fields | undefined = leaf;
    while (one !== undefined && !met.has(one)) {
      met.add(one);
      branch.push(one);
      const parent: unknown = one.parentId;
      one = typeof parent === "string" ? byId.get(parent) : undefined;
      if (typeof parent === "string" && one === undefined) leftOut.add("the missing parent of an entry");
    }
    if (one !== undefined && branch.includes(one)) leftOut.add("the order of entries that are each other's parents");
    return branch.toReversed();
  };
  const last = entries.at(-1);
  const leaves = entries.filter(({ id }) => !parents.has(id));
  // Entries that are each other's parents have no leaf, so each entry that is left is one.
  const found = [...(last === undefined ? [] : [last]), ...leaves.toReversed(), ...entries.toReversed()].map(walk);
  const [newest = [], ...others] = found;
  return [newest, ...others.filter((branch) => branch.some(({ type }) => type === "message"))];
}

function turnsOf(entry: Fields, leftOut: LeftOut): readonly Turn[] {
  const created_at = timeFrom(entry.timestamp);
  const ref = textIn(entry.id);
  const note = (kind: unknown, text: string): readonly Turn[] => [
    { by: "user", content: `[${String(kind)}]\n${text}`, created_at, ref },
  ];
  switch (entry.type) {
    case "message": {
      const { message } = entry;
      if (!isRecord(message)) break;
      const { role, content } = message;
      if (role === "user") return [{ by: "user", content: contentOf(content, leftOut), created_at, ref }];
      if (role === "assistant") {
        const model = textIn(message.model);
        return [{ by: "assistant", blocks: blocksOf(content, leftOut), model, created_at, ref }];
      }
      if (role === "toolResult") {
        const result = { tool_use_id: String(message.toolCallId), content: contentOf(content, leftOut) };
        return [{ by: "tool", result: { ...result, is_error: message.isError === true }, created_at, ref }];
      }
      if (role === "bashExecution") return note("bash", `$ ${String(message.command)}\n${String(message.output)}`);
      if (role === "custom") return note(message.customType, textOf(contentOf(content, leftOut)));
      leftOut.add(`messages of the role ${String(role).slice(0, 40)}`);
      return [];
    }
    case "custom_message":
      return note(entry.customType, textOf(contentOf(entry.content, leftOut)));
    case "branch_summary":
      return note("summary of another branch", String(entry.summary));
    case "compaction": {
      const keepsFrom = textIn(entry.firstKeptEntryId);
      return [{ by: "compaction", summary: String(entry.summary ?? ""), keepsFrom, created_at }];
    }
  }
  leftOut.add(`entries of the type ${String(entry.type).slice(0, 40)}`);
  return [];
}

function contentOf(content: unknown, leftOut: LeftOut): string | ContentBlock[] {
  if (typeof content === "string") return content;
  return contentFrom(
    tablesIn(content).map((part): ContentBlock => {
      if (typeof part.text === "string") return { type: "text", text: part.text };
      return mediaBlock({ data: part.data, type: part.mimeType }, leftOut);
    }),
  );
}

function blocksOf(content: unknown, leftOut: LeftOut): readonly Block[] {
  if (typeof content === "string") return textBlock(content);
  return tablesIn(content).flatMap((block): Block[] => {
    if (block.type === "text") return textBlock(block.text);
    if (block.type === "thinking") return reasoningBlock(String(block.thinking ?? ""));
    if (block.type === "toolCall") return [callBlock(block.id, block.name, block.arguments)];
    leftOut.add(`blocks of the type ${String(block.type).slice(0, 40)}`);
    return [];
  });
}
