import { RuntimeError } from "@rkat/core/contract/error";

/** A response: the session it was said in, and the seq at which its turn began. */
export interface ResponsePlace {
  readonly session_id: string;
  readonly seq: number;
}

export function responseId({ session_id, seq }: ResponsePlace): string {
  return `resp_${session_id.replaceAll("-", "")}_${seq}`;
}

export function conversationId(session_id: string): string {
  return `conv_${session_id.replaceAll("-", "")}`;
}

/** Throws SESSION_NOT_FOUND for what is no id of ours: there is no such response. */
export function parseResponseId(id: string): ResponsePlace {
  const [, hex = "", seq = ""] = /^resp_([0-9a-f]{32})_(\d{1,15})$/.exec(id) ?? [];
  if (hex === "") throw notThere("response", id);
  return { session_id: uuidOf(hex), seq: Number(seq) };
}

/** A context that was compacted without a response: the session that has it, and where that ended. */
export function compactedId({ session_id, seq }: ResponsePlace): string {
  return `cmp_${session_id.replaceAll("-", "")}_${seq}`;
}

export function parseCompactedId(id: string): ResponsePlace | undefined {
  return id.startsWith("cmp_") ? parseResponseId(id.replace("cmp_", "resp_")) : undefined;
}

/** The response of an item of its output, and which of them it is; undefined for what is no id of such an item. */
export function parseItemId(id: string): { readonly place: ResponsePlace; readonly index: number } | undefined {
  const [, response = "", index = ""] = /^[a-z]{1,8}_([0-9a-f]{32}_\d{1,15})_(\d{1,6})$/.exec(id) ?? [];
  return response === "" ? undefined : { place: parseResponseId(`resp_${response}`), index: Number(index) };
}

export function parseConversationId(id: string): string {
  const [, hex] = /^conv_([0-9a-f]{32})$/.exec(id) ?? [];
  if (hex === undefined) throw notThere("conversation", id);
  return uuidOf(hex);
}

export function notThere(kind: "response" | "conversation" | "item", id: string): RuntimeError {
  return new RuntimeError("SESSION_NOT_FOUND", `there is no ${kind} ${JSON.stringify(id.slice(0, 100))}`);
}

function uuidOf(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
