import type { LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4Prompt } from "@ai-sdk/provider";
import { isStepCount, type ModelMessage, tool } from "ai";
import { z } from "zod";

export const WINDOW = 8_000;
const BYTES_PER_TOKEN = 4;

/** What a server would count: every byte of what it is sent. */
export function tokensOf(value: unknown): number {
  return Math.ceil(Buffer.byteLength(JSON.stringify(value)) / BYTES_PER_TOKEN);
}

export function isSummaryRequest(text: string): boolean {
  return text.includes("CONTEXT COMPACTION");
}

/** What a step's report says; one line of each holds a fact. */
function reportOf(step: number): string {
  const rows = Array.from({ length: 12 }, (_, row) => `row ${row} of batch ${step}: nothing unusual was measured here`);
  return [`Batch ${step} is stored at /data/batch-${step}.csv.`, ...rows].join("\n");
}

interface Asked {
  readonly prompt: LanguageModelV4Prompt;
  readonly isSummary: boolean;
}

/** A model that reads batches one by one, refuses more than its window, and writes summaries of what it is shown. */
export function batchReader(
  steps: number,
  how: { summary?: (prompt: string) => string; window?: number; countsTwice?: boolean } = {},
) {
  const asked: Asked[] = [];
  let step = 0;
  const answer = (options: LanguageModelV4CallOptions) => {
    const text = JSON.stringify(options.prompt);
    const isSummary = isSummaryRequest(text);
    asked.push({ prompt: options.prompt, isSummary });
    const tokens = tokensOf([options.prompt, options.tools]) * (how.countsTwice === true ? 2 : 1);
    if (tokens > (how.window ?? WINDOW)) throw new Error(`maximum context length exceeded: ${tokens} tokens`);
    requirePairs(options.prompt);
    const usage = {
      inputTokens: { total: tokens, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
      outputTokens: { total: 10, text: undefined, reasoning: undefined },
    };
    if (isSummary) {
      const content = [{ type: "text" as const, text: (how.summary ?? summaryOf)(text) }];
      return { content, finishReason: { unified: "stop" as const, raw: undefined }, usage, warnings: [] };
    }
    step += 1;
    if (step > steps) {
      const content = [{ type: "text" as const, text: "All batches are read." }];
      return { content, finishReason: { unified: "stop" as const, raw: undefined }, usage, warnings: [] };
    }
    const input = JSON.stringify({ batch: step });
    const content = [{ type: "tool-call" as const, toolCallId: `call-${step}`, toolName: "readBatch", input }];
    return { content, finishReason: { unified: "tool-calls" as const, raw: undefined }, usage, warnings: [] };
  };
  const model: LanguageModelV4 = {
    specificationVersion: "v4",
    provider: "scripted",
    modelId: "batch-reader",
    supportedUrls: {},
    doGenerate: async (options) => answer(options),
    doStream: async (options) => {
      const { content, finishReason, usage } = answer(options);
      return {
        stream: new ReadableStream({
          start: (controller) => {
            controller.enqueue({ type: "stream-start", warnings: [] });
            for (const [at, part] of content.entries()) {
              if (part.type === "tool-call") controller.enqueue(part);
              else {
                controller.enqueue({ type: "text-start", id: `${at}` });
                controller.enqueue({ type: "text-delta", id: `${at}`, delta: part.text });
                controller.enqueue({ type: "text-end", id: `${at}` });
              }
            }
            controller.enqueue({ type: "finish", finishReason, usage });
            controller.close();
          },
        }),
      };
    },
  };
  return { model, asked };
}

/** A summary that says the files' names it is shown, the newest first, as many as a line takes. */
function summaryOf(prompt: string): string {
  const files = [...new Set(prompt.match(/\/data\/batch-\d+\.csv/g) ?? [])];
  return `Batches are read one by one. Stored so far: ${files.slice(-40).join(", ")}.`;
}

/** Throws where a call has no result right after it, or a result no call. */
export function requirePairs(prompt: readonly (LanguageModelV4Prompt[number] | ModelMessage)[]): void {
  let open = new Set<string>();
  for (const { role, content } of prompt) {
    if (role !== "tool" && open.size > 0) throw new Error(`calls without results: ${[...open].join(", ")}`);
    if (typeof content === "string") continue;
    if (role === "assistant")
      open = new Set(content.flatMap((part) => (part.type === "tool-call" ? [part.toolCallId] : [])));
    if (role !== "tool") continue;
    for (const part of content) {
      if (part.type === "tool-result" && !open.delete(part.toolCallId))
        throw new Error(`a result without a call: ${part.toolCallId}`);
    }
  }
  if (open.size > 0) throw new Error(`calls without results: ${[...open].join(", ")}`);
}

export const LOOP = {
  system: "You read batches.",
  prompt: "Read every batch, one after the other. Never delete /data/keep.csv.",
  stopWhen: isStepCount(1_000),
  maxRetries: 0,
  tools: {
    readBatch: tool({
      description: "Reads one batch.",
      inputSchema: z.object({ batch: z.number() }),
      execute: ({ batch }) => reportOf(batch),
    }),
  },
};
