import { describe, expect, it } from "vitest";
import { type Script, toolOf, traced } from "../../../test/support/span-trees.ts";
import { openTracing } from "../../../test/support/tracing.ts";
import type { RuntimeOptions } from "./create-runtime.ts";

const WORD = "zebrafish";
const KEY = 'pa"ss\nword-heron';
const LINE = `The ${WORD} swam on while the kettle boiled for a second time. `.repeat(6);

class Leak extends Error {
  override name = WORD;
}

/** Says the word everywhere something can be said: in what is asked, answered, searched, summarised and refused. */
async function sayIt(telemetry: Exclude<RuntimeOptions["telemetry"], true | undefined>, isFailing = false) {
  const script: Script = ({ tools, messages }) => {
    if (tools.length === 0) return { text: `They spoke of a ${WORD}.` };
    const last = JSON.stringify(messages.at(-1));
    if (last.includes("Fail")) return { ends: { failure: { kind: "auth", message: `${WORD} ${KEY}` } } };
    if (!last.includes("Use")) return { reasoning: { text: WORD }, text: [`The ${WORD}`, ` is noted.`] };
    const own = ["returns", "throws", "refuses", WORD].map((name) => ({ name, args: { query: WORD, key: KEY } }));
    return { calls: [...own, { name: "memory_search", args: { query: WORD } }] };
  };
  const tools = [
    toolOf("returns", () => `a ${WORD} and ${KEY}`),
    toolOf("refuses", () => ({ content: `no ${WORD}`, isError: true })),
    toolOf("throws", () => {
      throw new Leak(`a ${WORD} in the ${KEY}`);
    }),
  ];
  const { runtime } = traced(script, {
    telemetry,
    tools,
    secrets: [KEY],
    systemPrompt: `You keep a ${WORD}.`,
    memory: {},
    compaction: {
      autoCompactThreshold: 1_600,
      maxSummaryTokens: 100,
      recentTurnBudget: 2,
      ...(isFailing ? { beforeCompaction: () => `the ${WORD} forbids it` } : {}),
    },
  });
  const session = await runtime.createSession(`Remember the ${WORD}. ${KEY}`, { labels: { pet: WORD } });
  for (let said = 1; said < 12; said += 1) await session.turn(`Turn ${said}. ${LINE}`);
  await session.turn(`Use the ${WORD}.`);
  await runtime.createSession(`And the ${WORD}?`, { outputSchema: { type: "object", title: WORD } });
  await runtime.searchMemory(WORD, { everything: true });
  await expect(session.turn("Fail.")).rejects.toMatchObject({ code: "PROVIDER_ERROR" });
  await runtime.close();
}

describe("what is said", () => {
  for (const isFailing of [false, true]) {
    it(`[H3] [G9] is nowhere in telemetry unless asked for${isFailing ? ", when compactions fail" : ""}`, async () => {
      const { tracer, text, spanTrees } = openTracing();
      await sayIt({ tracer }, isFailing);
      const names = new Set(
        spanTrees().flatMap(({ name, children }) => [name, ...children.map((child) => child.name)]),
      );
      expect([...names].toSorted()).toEqual([
        "chat scripted",
        "compact",
        "execute_tool memory_search",
        "execute_tool refuses",
        "execute_tool returns",
        "execute_tool throws",
        "invoke_agent",
        "search_memory",
      ]);
      expect(text()).not.toContain(WORD);
      expect(text()).not.toContain("heron");
    });
  }

  it("[H3] [G9] is told when it is asked for, and keys are not", async () => {
    const { tracer, text, spanTrees } = openTracing();
    await sayIt({ tracer, captureContent: true });
    const all = spanTrees().flatMap((turn) => [turn, ...turn.children]);
    const find = (name: string) => all.find((span) => span.name === name);
    expect(find("execute_tool returns")?.attributes).toMatchObject({
      "gen_ai.tool.description": "Does returns.",
      "gen_ai.tool.call.arguments": JSON.stringify({ query: WORD, key: "[redacted]" }),
      "gen_ai.tool.call.result": JSON.stringify(`a ${WORD} and [redacted]`),
    });
    expect(find("execute_tool throws")?.status).toBe(`error: a ${WORD} in the [redacted]`);
    expect(find("invoke_agent")?.attributes).toMatchObject({
      "gen_ai.input.messages": JSON.stringify([
        { role: "user", parts: [{ type: "text", content: `Remember the ${WORD}. [redacted]` }] },
      ]),
      "gen_ai.output.messages": JSON.stringify([
        { role: "assistant", parts: [{ type: "text", content: `The ${WORD} is noted.` }] },
      ]),
    });
    expect(find("chat scripted")?.attributes).toMatchObject({
      "gen_ai.system_instructions": expect.stringContaining(`You keep a ${WORD}.`),
      "gen_ai.output.messages": JSON.stringify([
        {
          role: "assistant",
          parts: [
            { type: "reasoning", content: WORD },
            { type: "text", content: `The ${WORD} is noted.` },
          ],
        },
      ]),
    });
    expect(find("search_memory")?.attributes).toMatchObject({
      "gen_ai.memory.query.text": WORD,
      "gen_ai.memory.records": expect.stringContaining(WORD),
    });
    expect(find("compact")?.attributes).toMatchObject({ "rkat.compaction.summary": `They spoke of a ${WORD}.` });
    expect(all.filter(({ status }) => status === `error: ${WORD} [redacted]`).map(({ name }) => name)).toEqual([
      "invoke_agent",
      "chat scripted",
    ]);
    expect(text()).not.toContain("heron");
  });

  it("[A5] [G9] that no JSON can say is left out, and the tool's caller hears what is wrong with it", async () => {
    const { tracer, spanTrees } = openTracing();
    const circle: Record<string, unknown> = { content: "round" };
    circle.content = [circle];
    // Callers without types can return anything.
    const tools = [toolOf("turns", () => circle as unknown as string)];
    const script: Script = (_request, index) => (index === 0 ? { calls: [{ name: "turns" }] } : { text: "Done." });
    const { runtime, model } = traced(script, { tools, telemetry: { tracer, captureContent: true } });
    await runtime.createSession("Go.");
    expect(JSON.stringify(model.requests[1]?.messages)).toContain("turns returned what is no tool output");
    expect(spanTrees()[0]?.children[1]?.attributes).not.toHaveProperty(["gen_ai.tool.call.result"]);
  });

  it("[H5] [G9] of one value no more is told than a named bound", async () => {
    const { tracer, spanTrees } = openTracing();
    const { runtime } = traced([{ text: "Long." }], { telemetry: { tracer, captureContent: true } });
    await runtime.createSession("x".repeat(200_000));
    expect(String(spanTrees()[0]?.attributes["gen_ai.input.messages"])).toHaveLength(65_536);
  });
});

describe("options", () => {
  it("[H1] a name that is none is refused", () => {
    const options: object = { telemetry: { captureContents: true } };
    expect(() => traced([], options)).toThrow("captureContents is no option; did you mean captureContent?");
  });
});
