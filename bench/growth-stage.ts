import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { defaultConfig } from "@rkat/core/config/settings";
import type { Embedder } from "@rkat/core/ports/memory";
import type { ModelClient } from "@rkat/core/ports/model";
import { type EntryBody, openRuntime, type Runtime, type Store } from "@rkat/node";
import { createMemoryData, DIMENSIONS } from "./memory-store-data.ts";
import { timeOf } from "./memory-store-stopwatch.ts";
import { createPassageText } from "./memory-store-text.ts";
import { median } from "./report.ts";

export type Features = ReturnType<typeof defaultConfig>["features"];

const text = createPassageText();

/** What is said: passages of some hundred letters, the same in every run. */
export function passage(number: number): string {
  return text.passage(number);
}

export function open(stateFolder: string, features: Features, contextWindow = 100_000_000): Promise<Runtime> {
  return openRuntime({
    stateFolder,
    model: createTalker(contextWindow),
    env: {},
    config: { ...defaultConfig(), features },
    ...(features.includes("memory-store") ? { memory: { embedder: createFreeEmbedder() } } : {}),
  });
}

/** Answers at once, and keeps nothing of what it was asked. */
export function createTalker(contextWindow: number): ModelClient {
  let said = 0;
  return {
    provider: "bench",
    modelId: "talker",
    contextWindow,
    async *stream() {
      said += 1;
      const answer = passage(said * 2 + 1);
      yield { type: "text_delta", delta: answer };
      yield { type: "block", block: { block_type: "text", data: { text: answer } } };
      yield { type: "finish", stopReason: "end_turn", usage: { input_tokens: 100, output_tokens: 50 } };
    },
  };
}

const VECTORS = 509;
const data = createMemoryData();
// Made once: thirty milliseconds that are no part of what is measured.
const vectors = Array.from({ length: VECTORS }, (_, at) => data.vector(at));

/** Vectors that cost nothing to make; keeping them counts. They are not of the texts, and are not all alike. */
export function createFreeEmbedder(): Embedder {
  const vectorOf = (said: string): Float32Array => vectors[crc32(said) % VECTORS] ?? new Float32Array(DIMENSIONS);
  return {
    id: "free",
    dimensions: DIMENSIONS,
    embed: async (texts) => texts.map(vectorOf),
    close: async () => {},
  };
}

export async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "rkat-bench-growth-"));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Median of the CPU that one of `times` takes. */
export async function cpuOf(times: number, work: (time: number) => Promise<unknown>): Promise<number> {
  const took: number[] = [];
  for (let time = 0; time < times; time += 1) took.push((await timeOf(() => work(time))).cpuMs);
  return median(took);
}

export function created(labels: Record<string, string> = {}): EntryBody {
  return {
    kind: "session_created",
    settings: {
      model: "talker",
      provider: "bench",
      max_turns: 100,
      budget_limits: {},
      tools: { builtins: "none", shell: false, memory: false },
      tool_filter: "All",
      structured_output_retries: 2,
      labels,
    },
  };
}

export function imported(number: number): EntryBody {
  const created_at = "2026-01-05T10:30:00.000Z";
  if (number % 2 === 0) return { kind: "imported", message: { role: "user", content: passage(number), created_at } };
  const blocks = [{ block_type: "text" as const, data: { text: passage(number) } }];
  return { kind: "imported", message: { role: "block_assistant", blocks, stop_reason: "end_turn", created_at } };
}

export function idOf(number: number): string {
  return `01900000-0000-7000-8000-${number.toString(16).padStart(12, "0")}`;
}

const ENTRIES_AT_ONCE = 500;

/** Writes a session of so many messages straight into a log: turns would take minutes. */
export async function writeSession(
  { log }: Store,
  id: string,
  messages: number,
  bodyAt: (number: number) => EntryBody = imported,
): Promise<void> {
  let after = 0;
  const append = async (bodies: readonly EntryBody[]): Promise<void> => {
    const entries = await log.append(
      id,
      after,
      bodies.map((body) => ({ span: 1, body })),
    );
    after += entries.length;
  };
  await append([created()]);
  for (let first = 0; first < messages; first += ENTRIES_AT_ONCE) {
    const count = Math.min(ENTRIES_AT_ONCE, messages - first);
    await append(Array.from({ length: count }, (_, at) => bodyAt(first + at)));
  }
}
