import type { LanguageModelV4Message } from "@ai-sdk/provider";
import type { JsonObject } from "../contract/session.ts";
import type { ModelPart, ModelRequest, NativeRequest } from "../ports/model.ts";
import { Answer, type AnswerEnd, SIGN_OF_LIFE, type StreamPart } from "./ai-sdk-answer.ts";
import type { Dialect } from "./ai-sdk-dialect.ts";
import { asRecord } from "./http-stream.ts";

/** How a provider compacts; undefined where it, or the package at hand, cannot. */
type CompactingApi = "anthropic" | "responses";

/** Packages of earlier generations pass over what asks for a compaction without a word. */
export function compactingApi({ version, family, isResponses }: Dialect): CompactingApi | undefined {
  if (version !== "v4") return undefined;
  return family === "anthropic" ? "anthropic" : isResponses ? "responses" : undefined;
}

/** A request that is answered with a compaction of its messages. */
export function compactingRequest(request: NativeRequest, api: CompactingApi): ModelRequest {
  const { instructions, ...rest } = request;
  if (api === "responses") {
    // Reasoning counts as output: a limit meant for a summary would be used up before there is one.
    const { maxOutputTokens: _unlimited, ...unlimited } = rest;
    return { ...unlimited, providerParams: { compactionTrigger: true } };
  }
  const own = instructions === undefined ? {} : { instructions };
  return { ...rest, providerParams: { compaction: { type: "summarize", ...own } } };
}

/** Parameters by which the provider keeps or compacts the conversation itself: it refuses its own item beside them. */
const KEPT_BY_PROVIDER: Readonly<Record<CompactingApi, readonly string[]>> = {
  anthropic: ["contextManagement", "taskBudget", "thread"],
  responses: ["conversation", "previousResponseId"],
};

/** An item as a message of the provider's; undefined where it cannot be sent, and the summary is. */
export function itemMessage(
  item: JsonObject,
  params: JsonObject,
  dialect: Dialect,
): LanguageModelV4Message | undefined {
  const api = compactingApi(dialect);
  if (api === undefined || KEPT_BY_PROVIDER[api].some((name) => params[name] !== undefined)) return undefined;
  if (api === "anthropic") {
    const { content: text, signature } = item;
    if (typeof text !== "string" || text.trim() === "" || typeof signature !== "string") return undefined;
    const providerOptions = { anthropic: { type: "compaction", signature } };
    return { role: "assistant", content: [{ type: "text", text, providerOptions }] };
  }
  const { id: itemId, encrypted_content: encryptedContent } = item;
  // With a store the package would send the id alone, of an item that was never stored.
  if (typeof itemId !== "string" || typeof encryptedContent !== "string" || params.store === true) return undefined;
  const providerOptions = { [dialect.namespace]: { itemId, encryptedContent } };
  return { role: "assistant", content: [{ type: "custom", kind: "openai.compaction", providerOptions }] };
}

/** Far more than any compaction takes; what does not end must not fill the memory. */
const STREAMED_CHARS_MAX = 4 * 1_024 * 1_024;

/** Gathers a compaction. Nothing of it is for showing, so signs of life are all that is passed on before it. */
export class CompactionAnswer {
  readonly ready: ModelPart[] = [];
  readonly #answer = new Answer();
  readonly #items: JsonObject[] = [];
  /** Anthropic's block, which comes as a text, by the id of that text. */
  #open: { readonly id: string; readonly signature: unknown; content: string } | undefined;
  #chars = 0;

  take(part: StreamPart): AnswerEnd | undefined {
    this.#gather(part);
    if (this.#chars > STREAMED_CHARS_MAX) {
      return {
        type: "failed",
        failure: { kind: "answer_too_long", message: "the provider's compaction does not end" },
      };
    }
    const end = this.#answer.take(part);
    if (this.#answer.ready.length > 0) this.ready.push(SIGN_OF_LIFE);
    this.#answer.ready.length = 0;
    const [item, ...others] = this.#items;
    // Of several nobody says which stands for the conversation.
    if (end?.type === "finish" && item !== undefined && others.length === 0) {
      const data = { name: "compaction", content: item };
      this.ready.push({ type: "block", block: { block_type: "server_tool_content", data } });
    }
    return end;
  }

  #gather(part: StreamPart): void {
    switch (part.type) {
      case "text-start": {
        const { type, signature } = asRecord(part.providerMetadata?.anthropic);
        if (type === "compaction") this.#open = { id: part.id, signature, content: "" };
        return;
      }
      case "text-delta":
      case "reasoning-delta":
        this.#chars += part.delta.length;
        if (part.type === "text-delta" && part.id === this.#open?.id) this.#open.content += part.delta;
        return;
      case "text-end": {
        const open = this.#open;
        if (open === undefined || part.id !== open.id) return;
        this.#open = undefined;
        const { content, signature } = open;
        // Unsigned, it would be refused when it is sent back.
        if (content.trim() !== "" && typeof signature === "string") {
          this.#items.push({ type: "compaction", content, signature });
        }
        return;
      }
      case "custom": {
        if (part.kind !== "openai.compaction") return;
        const { openai, azure } = part.providerMetadata ?? {};
        const { itemId: id, encryptedContent: encrypted_content } = asRecord(openai ?? azure);
        if (typeof id !== "string" || typeof encrypted_content !== "string") return;
        this.#items.push({ type: "compaction", id, encrypted_content });
        return;
      }
      default:
    }
  }
}
