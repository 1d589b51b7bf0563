import type { AgentEventOf } from "@rkat/core/contract/event";
import type { Frame } from "./turn-route.ts";

type Status = "in_progress" | "completed" | "incomplete";

interface MessageItem {
  readonly type: "message";
  readonly id: string;
  readonly role: "assistant";
  status: Status;
  content: { readonly type: "output_text"; text: string; readonly annotations: []; readonly logprobs: [] }[];
}

interface ReasoningItem {
  readonly type: "reasoning";
  readonly id: string;
  readonly summary: [];
  status: Status;
  content: { readonly type: "reasoning_text"; text: string }[];
}

interface FunctionItem {
  readonly type: "function_call";
  readonly id: string;
  readonly call_id: string;
  readonly name: string;
  arguments: string;
  status: Status;
}

interface ToolItem {
  readonly type: "mcp_call";
  readonly id: string;
  readonly server_label: "rkat";
  readonly name: string;
  readonly arguments: string;
  output: string | null;
  error: string | null;
  status: Status | "failed";
}

export type Item = MessageItem | ReasoningItem | FunctionItem | ToolItem;
type Said = MessageItem | ReasoningItem;
type MakeFrame = (type: string, data: Readonly<Record<string, unknown>>) => Frame;

const PREFIX = { message: "msg", reasoning: "rs", function_call: "fc", mcp_call: "mcp" } as const;

/** The items of a response as they are created, and their stream events. */
export function createItems(responseId: () => string, frame: MakeFrame) {
  const output: Item[] = [];
  const calls = new Map<string, { readonly item: ToolItem; readonly output_index: number }>();
  let open: Said | undefined;
  /** What was streamed of the answer that is being given: the log has not said yet that it stands. */
  let streamed: Said[] = [];

  const idOf = (type: Item["type"]): string => `${PREFIX[type]}_${responseId().replace(/^resp_/, "")}_${output.length}`;
  const at = (item: Item) => ({ item_id: item.id, output_index: output.indexOf(item) });
  const push = (item: Item): Frame => {
    output.push(item);
    return frame("response.output_item.added", { output_index: output.length - 1, item: structuredClone(item) });
  };
  const done = (item: Item): Frame =>
    frame("response.output_item.done", { output_index: output.indexOf(item), item: structuredClone(item) });
  const word = (item: Said): string => (item.type === "message" ? "response.output_text" : "response.reasoning_text");
  const extra = (item: Said) => (item.type === "message" ? { logprobs: [] } : {});

  const begin = (type: Said["type"]): { readonly item: Said; readonly frames: readonly Frame[] } => {
    // Deltas of another kind: the previous item is complete.
    const closed = open === undefined ? [] : close(open, "completed");
    const base = { id: idOf(type), status: "in_progress" as const, content: [] };
    const item: Said = type === "message" ? { ...base, type, role: "assistant" } : { ...base, type, summary: [] };
    open = item;
    streamed.push(item);
    const added = push(item);
    const part =
      item.type === "message"
        ? item.content[item.content.push({ type: "output_text", text: "", annotations: [], logprobs: [] }) - 1]
        : item.content[item.content.push({ type: "reasoning_text", text: "" }) - 1];
    const parted = frame("response.content_part.added", { ...at(item), content_index: 0, part: structuredClone(part) });
    return { item, frames: [...closed, added, parted] };
  };
  const add = (type: Said["type"], delta: string): readonly Frame[] => {
    const begun = open?.type === type ? { item: open, frames: [] } : begin(type);
    const { item, frames } = begun;
    const [part] = item.content;
    if (part !== undefined) part.text += delta;
    return [...frames, frame(`${word(item)}.delta`, { ...at(item), content_index: 0, delta, ...extra(item) })];
  };
  const close = (item: Said, status: Status): readonly Frame[] => {
    open = undefined;
    item.status = status;
    const [part] = item.content;
    const text = part?.text ?? "";
    return [
      frame(`${word(item)}.done`, { ...at(item), content_index: 0, text, ...extra(item) }),
      frame("response.content_part.done", { ...at(item), content_index: 0, part: structuredClone(part) }),
      done(item),
    ];
  };
  /** Ends what was being said and is not: what was streamed of it cannot be taken back. */
  const abandon = (): readonly Frame[] => {
    streamed = [];
    return open === undefined ? [] : close(open, "incomplete");
  };

  return {
    add,
    abandon,
    finish: (type: Said["type"], text: string): readonly Frame[] => {
      if (text === "") return [];
      const known = streamed.filter((item) => item.type === type);
      const said = known.length === 0 ? add(type, text) : [];
      streamed = streamed.filter((item) => item.type !== type);
      const [item = open] = known;
      const [part] = item?.content ?? [];
      // In several pieces, between which it thought, each has its own.
      if (part !== undefined && known.length < 2) part.text = text;
      return open?.type === type ? [...said, ...close(open, "completed")] : said;
    },
    callFunction: ({ id, name, args }: AgentEventOf<"tool_call_requested">): readonly Frame[] => {
      const text = JSON.stringify(args);
      const item: FunctionItem = {
        type: "function_call",
        id: idOf("function_call"),
        call_id: id,
        name,
        arguments: "",
        status: "in_progress",
      };
      const frames = [...abandon(), push(item)];
      item.arguments = text;
      item.status = "completed";
      frames.push(frame("response.function_call_arguments.delta", { ...at(item), delta: text }));
      frames.push(frame("response.function_call_arguments.done", { ...at(item), name, arguments: text }), done(item));
      return frames;
    },
    callTool: ({ id, name, args }: AgentEventOf<"tool_call_requested">): readonly Frame[] => {
      const text = JSON.stringify(args);
      const base = { type: "mcp_call", id: idOf("mcp_call"), server_label: "rkat", name, arguments: text } as const;
      const item: ToolItem = { ...base, output: null, error: null, status: "in_progress" };
      const frames = [...abandon(), push(item)];
      calls.set(id, { item, output_index: output.length - 1 });
      frames.push(frame("response.mcp_call.in_progress", at(item)));
      frames.push(frame("response.mcp_call_arguments.done", { ...at(item), arguments: text }));
      return frames;
    },
    answerTool: ({ id, result, is_error }: AgentEventOf<"tool_execution_completed">): readonly Frame[] => {
      const item = calls.get(id)?.item;
      if (item === undefined || item.status !== "in_progress") return [];
      item.status = is_error ? "failed" : "completed";
      if (is_error) item.error = result;
      else item.output = result;
      return [frame(is_error ? "response.mcp_call.failed" : "response.mcp_call.completed", at(item)), done(item)];
    },
    all: (status: string): readonly Item[] => structuredClone(status === "in_progress" ? [] : output),
  };
}
