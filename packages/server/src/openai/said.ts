import { createHash } from "node:crypto";
import type { Content, ContentBlock, PendingCall } from "@rkat/core/contract/message";
import { textOfFile } from "@rkat/core/sessions/media";

/**
 * What a client and the assistant said to each other, as the client knows it: words of the user one after another are one,
 * and what was done on the server between them is not there.
 */
export type Said =
  | { readonly role: "user"; readonly parts: readonly ContentBlock[] }
  | { readonly role: "assistant"; readonly text: string; readonly calls: readonly PendingCall[] }
  /** In the order of the calls: what they are called by may change, as where a server counts them from zero. */
  | { readonly role: "tools"; readonly results: readonly SaidResult[] };

export interface SaidResult {
  readonly id: string;
  readonly content: Content;
}

/** A conversation up to some answer, by the hash of all that was said; the same meaning has the same hash. */
export type ChainHash = string;

/** The hash of a conversation and one thing more that was said. */
export function chainHash(before: ChainHash, said: Said): ChainHash {
  return createHash("sha256").update(before).update("\n").update(normalForm(said)).digest("base64url");
}

/** One text for everything that means the same; two meanings never have the same. */
function normalForm(said: Said): string {
  switch (said.role) {
    case "user":
      return JSON.stringify(["user", said.parts.map(partForm)]);
    case "assistant":
      // Clients trim what they show, and write the arguments of calls anew.
      return JSON.stringify(["assistant", said.text.trim(), said.calls.map(({ name, args }) => [name, sorted(args)])]);
    case "tools":
      return JSON.stringify(["tools", said.results.map(({ content }) => partsOf(content).map(partForm))]);
  }
}

export function inOrder(results: readonly SaidResult[], calls: Iterable<string>): readonly SaidResult[] {
  const byId = new Map(results.map((result) => [result.id, result]));
  return [...calls].flatMap((id) => byId.get(id) ?? []);
}

/** A text is a list of one part; an empty one is none. */
export function partsOf(content: Content): readonly ContentBlock[] {
  if (typeof content !== "string") return content;
  return content === "" ? [] : [{ type: "text", text: content }];
}

/** A text alone is a plain one. */
export function plainOf(parts: readonly ContentBlock[]): Content {
  const [only] = parts;
  return parts.length === 1 && only?.type === "text" ? only.text : [...parts];
}

/** Bytes count as what they are, wherever they are kept, and a file of text as that text. */
function partForm(part: ContentBlock): unknown {
  if (part.type === "text") return part.text;
  if (part.source === "blob") {
    const { blob_id, size: _size, ...rest } = part;
    return sorted({ ...rest, source: "bytes", data: blob_id });
  }
  if (part.source !== "inline") return sorted(part);
  const { data: base64, ...rest } = part;
  const data = Buffer.from(base64, "base64");
  const text = part.type === "file" ? textOfFile(part, data) : undefined;
  return (
    text ?? sorted({ ...rest, source: "bytes", data: `sha256:${createHash("sha256").update(data).digest("hex")}` })
  );
}

/** A value with the fields of its objects in one order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(fields.map(([key, inner]) => [key, sorted(inner)]));
}
