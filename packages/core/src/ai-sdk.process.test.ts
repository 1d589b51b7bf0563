import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
} from "@ai-sdk/provider";
import { describe, expect, it } from "vitest";
import { requirePairs } from "../../../test/ai-sdk/scripted-agent.ts";
import { fc } from "../../../test/support/property.ts";
import { type CompactionOptions, type CompactionReport, createCompaction } from "./ai-sdk.ts";

const FILLER = "the harbour was quiet and nobody said anything of note ".repeat(20);

/** A model that only writes summaries; `says` gives their text, or throws. */
function summariser(says: () => string) {
  let asked = 0;
  const model: LanguageModelV4 = {
    specificationVersion: "v4",
    provider: "scripted",
    modelId: "scripted",
    supportedUrls: {},
    doGenerate: () => Promise.reject(new Error("nobody asks for this")),
    doStream: async () => {
      asked += 1;
      const text = says();
      const usage = {
        inputTokens: { total: 1, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
        outputTokens: { total: 1, text: undefined, reasoning: undefined },
      };
      return {
        stream: new ReadableStream({
          start: (controller) => {
            controller.enqueue({ type: "text-start", id: "0" });
            controller.enqueue({ type: "text-delta", id: "0", delta: text });
            controller.enqueue({ type: "text-end", id: "0" });
            controller.enqueue({ type: "finish", finishReason: { unified: "stop", raw: undefined }, usage });
            controller.close();
          },
        }),
      };
    },
  };
  return { model, asked: () => asked };
}

const user = (text: string): LanguageModelV4Message => ({ role: "user", content: [{ type: "text", text }] });
const answer = (text: string): LanguageModelV4Message => ({ role: "assistant", content: [{ type: "text", text }] });

function exchange(id: string, output: string): LanguageModelV4Prompt {
  const call = { toolCallId: id, toolName: "read" };
  return [
    { role: "assistant", content: [{ type: "tool-call", ...call, input: { id } }] },
    { role: "tool", content: [{ type: "tool-result", ...call, output: { type: "text", value: output } }] },
  ];
}

const talk = (turns: number): LanguageModelV4Prompt =>
  Array.from({ length: turns }, (_, turn) => [user(`Question ${turn}: ${FILLER}`), answer(`Answer ${turn}.`)]).flat();

/** What the middleware makes of a prompt, and what it tells of it. */
async function shortened(prompt: LanguageModelV4Prompt, model: LanguageModelV4, options: CompactionOptions = {}) {
  const reports: CompactionReport[] = [];
  const { middleware } = createCompaction({
    contextWindow: 8_000,
    onCompaction: (report) => void reports.push(report),
    ...options,
  });
  const shorten = async (given: LanguageModelV4Prompt, more: Partial<LanguageModelV4CallOptions> = {}) => {
    const params = await middleware.transformParams?.({ type: "generate", params: { ...more, prompt: given }, model });
    if (params === undefined) throw new Error("the middleware transforms no parameters");
    return params.prompt;
  };
  return { sent: await shorten(prompt), reports, shorten, middleware };
}

describe("[G9] messages of an agent of the AI SDK", () => {
  it("are passed on as they are while they are small, and when there is nothing to say of them", async () => {
    const { model, asked } = summariser(() => "nothing");
    const prompt = talk(3);
    const { sent, reports } = await shortened(prompt, model);
    expect(sent.every((message, at) => message === prompt[at])).toBe(true);
    expect([sent.length, reports, asked()]).toEqual([prompt.length, [], 0]);
  });

  it("become a summary and the last turns, which are the very objects that were given", async () => {
    const { model } = summariser(() => "Questions 0 to 27 were asked and answered.");
    const system: LanguageModelV4Message = { role: "system", content: "Be brief." };
    const prompt = [system, ...talk(30), user("And now?")];
    const { sent, reports } = await shortened(prompt, model, { recentTurns: 2 });
    expect(sent[0]).toBe(system);
    expect(JSON.stringify(sent[1])).toContain("Questions 0 to 27 were asked and answered.");
    const kept = prompt.slice(-(sent.length - 2));
    expect(sent.slice(2).map((message, at) => message === kept[at])).toEqual(kept.map(() => true));
    expect(reports).toMatchObject([{ ok: true, kind: "summary", messagesBefore: prompt.length }]);
  });

  it("stay as they are where the summary fails, which is told and not tried again at once", async () => {
    const { model, asked } = summariser(() => {
      throw new Error("invalid api key");
    });
    // Due, but not so long that they would not fit.
    const prompt = [...talk(22), user("And now?")];
    const { sent, reports, shorten } = await shortened(prompt, model);
    expect(sent).toEqual(prompt);
    expect(reports).toMatchObject([{ ok: false }]);
    const tried = asked();
    expect(await shorten([...prompt, answer("Then."), user("And?")])).toHaveLength(prompt.length + 2);
    expect([reports.length, asked()]).toEqual([1, tried]);
  });

  it("become sentences of their own where the summary fails and they would not fit", async () => {
    const { model } = summariser(() => {
      throw new Error("invalid api key");
    });
    const { sent, reports } = await shortened([...talk(40), user("And now?")], model);
    expect(JSON.stringify(sent[0])).toContain("made without a model");
    expect(reports).toMatchObject([{ ok: true, kind: "summary" }]);
  });

  it("are summarised once for the same beginning, also by two calls at the same time", async () => {
    const { model, asked } = summariser(() => "Many questions were asked.");
    const prompt = [...talk(24), user("And now?")];
    const { shorten, sent } = await shortened([], model);
    expect(sent).toEqual([]);
    const [one, other] = await Promise.all([shorten(prompt), shorten(structuredClone(prompt))]);
    expect(one).toEqual(other);
    // Options, such as marks of a cache, make no other conversation of it.
    const marked = prompt.map((message) => ({ ...message, providerOptions: { anthropic: { cacheControl: "x" } } }));
    const again = await shorten([...marked, answer("Then."), user("And?")]);
    expect(again).toHaveLength(one.length + 2);
    expect(asked()).toBe(1);
    // Another beginning is another conversation, whatever follows it.
    await shorten([user("Another."), ...prompt.slice(1)]);
    expect(asked()).toBe(2);
  });

  it("keep what is pinned, with its question", async () => {
    const { model } = summariser(() => "Questions were asked.");
    const prompt = [...talk(30), user("And now?")];
    const [question, pinned] = [prompt[6], prompt[7]];
    const { sent, reports } = await shortened(prompt, model, { pin: (message) => message === pinned });
    expect(sent).toContain(question);
    expect(sent).toContain(pinned);
    expect(sent).not.toContain(prompt[4]);
    expect(reports).toMatchObject([{ ok: true }]);
  });

  it("let go of old tool output first, for a line that names no tool and no log", async () => {
    const { model, asked } = summariser(() => "nothing");
    const large = `${FILLER.repeat(4)} The serial number is QX-77777.`;
    const prompt = [user("Read them."), ...exchange("a", large), answer("Read."), ...talk(2)];
    const more = [...prompt, user("Again."), ...exchange("b", FILLER), answer("Done."), user("And now?")];
    const { sent, reports } = await shortened(more, model, { threshold: { tokens: 2_500 } });
    const line = JSON.stringify(sent[2]);
    expect(line).toContain("left the context]");
    expect(line).not.toMatch(/recall_output|seq/);
    expect(sent.filter((message) => !more.includes(message))).toEqual([sent[2]]);
    expect(reports).toMatchObject([{ ok: true, kind: "eviction", summary: "" }]);
    const [report] = reports;
    const found = report?.ok === true ? report.receipt.items.find(({ text }) => text.includes("QX-77777")) : undefined;
    expect(found).toMatchObject({ status: "lost" });
    expect(asked()).toBe(0);
  });

  it("are compacted by what the model counts, where that is more than the estimate", async () => {
    const { model, asked } = summariser(() => "Questions were asked.");
    const prompt = [...talk(10), user("And now?")];
    const { middleware, shorten } = await shortened([], model);
    const params = await middleware.transformParams?.({ type: "generate", params: { prompt }, model });
    if (params === undefined) throw new Error("the middleware transforms no parameters");
    const total = { total: 7_000, noCache: undefined, cacheRead: undefined, cacheWrite: undefined };
    const usage = { inputTokens: total, outputTokens: { total: 1, text: undefined, reasoning: undefined } };
    const result = { content: [], finishReason: { unified: "stop" as const, raw: undefined }, usage, warnings: [] };
    const doStream = () => Promise.reject(new Error("nobody asks for this"));
    await middleware.wrapGenerate?.({ doGenerate: async () => result, doStream, params, model });
    expect(asked()).toBe(0);
    await shorten([...prompt, answer("Then."), user("And?")]);
    expect(asked()).toBe(1);
  });

  it("are sent again, shorter, where the provider says that they are too long", async () => {
    const { model } = summariser(() => "Questions were asked.");
    const prompt = [...talk(10), user("And now?")];
    const { middleware, reports } = await shortened([], model);
    const params = await middleware.transformParams?.({ type: "generate", params: { prompt }, model });
    if (params === undefined) throw new Error("the middleware transforms no parameters");
    const sent: LanguageModelV4Prompt[] = [];
    const again: LanguageModelV4 = {
      ...model,
      doGenerate: async (options) => {
        sent.push(options.prompt);
        const total = { total: 1, noCache: undefined, cacheRead: undefined, cacheWrite: undefined };
        const usage = { inputTokens: total, outputTokens: { total: 1, text: undefined, reasoning: undefined } };
        return { content: [], finishReason: { unified: "stop", raw: undefined }, usage, warnings: [] };
      },
    };
    const refuse = () => Promise.reject(new Error("This model's maximum context length is 2000 tokens."));
    await middleware.wrapGenerate?.({ doGenerate: refuse, doStream: refuse, params, model: again });
    expect(JSON.stringify(sent).length).toBeLessThan(JSON.stringify(prompt).length * 0.6);
    expect(reports).toMatchObject([{ ok: true, kind: "summary" }]);
    const other = () => Promise.reject(new Error("no such model"));
    const call = { doGenerate: other, doStream: other, params, model: again };
    await expect(middleware.wrapGenerate?.(call)).rejects.toThrow("no such model");
  });

  it("are compacted although the store fails, which is told", async () => {
    const { model } = summariser(() => "Questions were asked.");
    const store = {
      get: () => Promise.reject(new Error("no connection")),
      set: () => Promise.reject(new Error("no connection")),
    };
    const { sent, reports } = await shortened([...talk(30), user("And now?")], model, { store });
    expect(JSON.stringify(sent)).toContain("Questions were asked.");
    const errors = reports.flatMap((report) => (report.ok ? [] : [report.error]));
    expect(new Set(errors)).toEqual(
      new Set(["the store could not be read: no connection", "the store could not be written: no connection"]),
    );
  });

  it("are not taken for others by what a store holds that is no summary of ours", async () => {
    const { model, asked } = summariser(() => "Questions were asked.");
    const store = { get: () => '{"version":2,"marks":"?"}', set: () => {} };
    const { sent } = await shortened([...talk(30), user("And now?")], model, { store });
    expect(JSON.stringify(sent)).toContain("Questions were asked.");
    expect(asked()).toBe(1);
  });

  it.each<[Readonly<Record<string, unknown>>, string]>([
    [{ contextWindow: 0 }, "contextWindow: give a whole number, at least 1"],
    [{ threshold: { share: 80 } }, "threshold.share: give more than 0, up to 1"],
    [{ threshold: { tokens: 0.5 } }, "threshold.tokens: give a whole number, at least 1"],
    [{ recentTurns: -1 }, "recentTurns: give a whole number, at least 0"],
    [{ keepTurns: 1 }, "keepTurns: no such option; there are contextWindow, threshold"],
  ])("are not compacted with %j", (options, sentence) => {
    expect(() => createCompaction(options)).toThrow(sentence);
  });

  it("need a model for their summaries where theirs is but a name", async () => {
    const { prepareStep } = createCompaction();
    await expect(prepareStep({ messages: [], model: "openai/gpt-5.5" })).rejects.toThrow(
      'summaryModel: give a model that writes summaries; "openai/gpt-5.5" is but a name',
    );
  });
});

const words = fc.string({ maxLength: 40 }).map((text) => `${text} ${FILLER}`);
const turn = fc
  .record({
    ask: words,
    results: fc.array(fc.array(words, { minLength: 1, maxLength: 3 }), { maxLength: 6 }),
    end: words,
  })
  .map(({ ask, results, end }) => ({ ask, results, end }));

/** Turns with tool exchanges, whose results come in one message or in one message each. */
function conversationOf(turns: readonly { ask: string; results: readonly (readonly string[])[]; end: string }[]) {
  return turns.flatMap(({ ask, results, end }, number): LanguageModelV4Prompt => {
    const exchanges = results.flatMap((batch, at): LanguageModelV4Prompt => {
      const calls = batch.map((value, index) => ({ toolCallId: `${number}-${at}-${index}`, toolName: "read", value }));
      const parts = calls.map(({ value, ...call }) => ({
        type: "tool-result" as const,
        ...call,
        output: { type: "text" as const, value },
      }));
      const isSplit = at % 2 === 1;
      return [
        {
          role: "assistant",
          content: [
            { type: "reasoning", text: "hm", providerOptions: { anthropic: { signature: "s" } } },
            ...calls.map(({ value: _value, ...call }) => ({ type: "tool-call" as const, ...call, input: { at } })),
          ],
        },
        ...(isSplit ? parts.map((part) => [part]) : [parts]).map((content) => ({ role: "tool" as const, content })),
      ];
    });
    return [user(ask), ...exchanges, answer(end)];
  });
}

function freeze(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  Object.freeze(value);
  for (const inner of Object.values(value)) freeze(inner);
}

describe("[G9] any conversation of an agent of the AI SDK", () => {
  it("keeps its calls with their results, its messages as they were, and what its caller holds untouched", async () => {
    const { model } = summariser(() => "They spoke of the harbour.");
    await fc.assert(
      fc.asyncProperty(
        fc.array(turn, { minLength: 1, maxLength: 12 }),
        fc.integer({ min: 1, max: 6 }),
        async (turns, step) => {
          const whole = conversationOf(turns);
          freeze(whole);
          const { shorten } = await shortened([], model, { threshold: { tokens: 3_000 } });
          const ends = whole.flatMap(({ role }, at) => (role === "assistant" ? [] : [at + 1]));
          for (const end of ends.filter((at, index) => index % step === 0 && whole[at]?.role !== "tool")) {
            const given = whole.slice(0, end);
            const sent = await shorten(given);
            requirePairs(sent);
            const places = sent.map((message) => given.indexOf(message)).filter((at) => at >= 0);
            expect(places).toEqual([...places].sort((a, b) => a - b));
            // What is none of them is the summary, or results that gave way to lines.
            const ours = sent.filter((message) => !given.includes(message));
            expect(ours.filter(({ role }) => role === "user").length).toBeLessThanOrEqual(1);
            expect(ours.every(({ role }) => role === "user" || role === "tool")).toBe(true);
            expect(sent).toContain(given.findLast(({ role }) => role === "user"));
          }
        },
      ),
      { numRuns: 20 },
    );
  });
});
