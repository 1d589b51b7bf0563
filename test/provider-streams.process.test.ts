import { setImmediate as nextTick } from "node:timers/promises";
import { createRuntime } from "@rkat/core/create-runtime";
import type { ModelClient } from "@rkat/core/ports/model";
import type { Tool } from "@rkat/core/ports/tool";
import { createModelResolver } from "@rkat/core/providers/resolve";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { byEffort } from "./support/effort.ts";
import { fc } from "./support/property.ts";
import { configWith, listen } from "./support/runtime.ts";
import { createVirtualClock } from "./support/virtual-clock.ts";
import { anthropicWire } from "./wire/anthropic.ts";
import { geminiWire } from "./wire/gemini.ts";
import { ollamaGenerateWire } from "./wire/ollama-generate.ts";
import { openAiBaseUrlWire, openAiChatWire } from "./wire/openai-chat.ts";
import { openAiResponsesWire } from "./wire/openai-responses.ts";
import type { Scenario, WireFormat } from "./wire/scenario.ts";

const RUNS_TOTAL = byEffort({ quick: 300, usual: 3_000, full: 10_000 });
const TIMEOUT_MS = 300_000;

const formats = [anthropicWire, openAiResponsesWire, openAiChatWire, openAiBaseUrlWire, geminiWire, ollamaGenerateWire];

describe("damaged streams", () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  beforeAll(() => void process.on("unhandledRejection", note));
  afterAll(() => void process.off("unhandledRejection", note));

  for (const format of formats) {
    const runs = Math.ceil(RUNS_TOTAL / formats.length);
    it(
      `[A4] ${format.name}: whatever the bytes, a turn ends with one terminal event and nothing is thrown`,
      async () => {
        const body = { bytes: new Uint8Array(), isBroken: false };
        const model = await openClient(format, () => responseOf(format, body));
        const config = configWith({
          agent: { max_turns: 2 },
          retry: { max_retries: 1 },
          limits: { max_sessions: runs },
        });
        const runtime = createRuntime({ model, config, clock: createVirtualClock(), env: {}, tools: [search] });
        await fc.assert(
          fc.asyncProperty(damagedBody(format), async (damaged) => {
            Object.assign(body, damaged);
            const { events, result, error } = await listen(runtime.createSessionStreaming("hello"));
            const ends = events.filter(({ type }) => type === "run_completed" || type === "run_failed");
            expect(ends).toEqual(events.slice(-1));
            expect((result === undefined) !== (error === undefined)).toBe(true);
          }),
          { numRuns: runs },
        );
        await nextTick();
        expect(unhandled).toEqual([]);
      },
      TIMEOUT_MS,
    );
  }
});

const search: Tool = {
  name: "search",
  description: "Finds things.",
  inputSchema: { type: "object" },
  execute: () => "nothing",
};

const ANSWER: Scenario = {
  reasoning: { text: "Überlegen …", signature: "c2lnbmVk" },
  text: ["Grüße ", "aus 東京 ", "🦦"],
  toolCalls: [
    { id: "call_a", name: "search", args: '{"query":"tea"}' },
    { id: "call_b", name: "search", args: '{"query":"cups"}' },
  ],
  usage: { input: 12, output: 34 },
};

interface DamagedBody {
  readonly bytes: Uint8Array;
  /** Where the network cuts it, inside characters as well. */
  readonly cuts: readonly number[];
  /** Whether the connection breaks instead of closing. */
  readonly isBroken: boolean;
}

function damagedBody(format: WireFormat): fc.Arbitrary<DamagedBody> {
  const whole = new TextEncoder().encode(format.render(ANSWER).join(""));
  const position = fc.nat({ max: whole.length });
  return fc
    .record({
      length: fc.oneof(fc.constant(whole.length), position),
      flips: fc.array(fc.record({ at: position, by: fc.integer({ min: 1, max: 255 }) }), { maxLength: 3 }),
      cuts: fc.array(position, { maxLength: 5 }),
      isBroken: fc.boolean(),
    })
    .map(({ length, flips, cuts, isBroken }) => {
      const bytes = whole.slice(0, length);
      for (const { at, by } of flips) if (at < length) bytes[at] = (bytes[at] ?? 0) ^ by;
      return { bytes, cuts, isBroken };
    });
}

function responseOf(format: WireFormat, { bytes, cuts = [], isBroken }: Partial<DamagedBody>): Response {
  const whole = bytes ?? new Uint8Array();
  const inside = [...cuts, whole.length].filter((cut) => cut > 0 && cut <= whole.length);
  const ends = [...new Set(inside)].sort((a, b) => a - b);
  let start = 0;
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      const end = ends.shift();
      if (end !== undefined) {
        controller.enqueue(whole.slice(start, end));
        start = end;
      } else if (isBroken) controller.error(Object.assign(new TypeError("terminated"), { code: "ECONNRESET" }));
      else controller.close();
    },
  });
  return new Response(stream, { headers: { "content-type": format.contentType } });
}

function openClient(format: WireFormat, answer: () => Response): Promise<ModelClient> {
  const { env, config, model } = format.settings("http://127.0.0.1:9");
  return createModelResolver({ env, config, fetch: async () => answer() }).resolve(model, undefined);
}
