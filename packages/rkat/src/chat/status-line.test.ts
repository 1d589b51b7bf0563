import { stripVTControlCharacters } from "node:util";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { configWith, scriptedRuntime } from "../../../../test/support/runtime.ts";
import { createPaint } from "../io.ts";
import { type ChatStatus, readChatStatus, statusLine } from "./status-line.ts";
import { cellsOf } from "./wrapped-text.ts";

const output = { isTerminal: true, columns: 80, write: () => {} };
const plain = createPaint(output, { NO_COLOR: "1" });

const ALL: ChatStatus = {
  model: "gpt-5",
  agent: "ada",
  tools: "workspace",
  isKept: false,
  context: { used: 12_800, window: 128_000, threshold: 102_400 },
  usage: { input_tokens: 1_234, output_tokens: 950, cost: { amount: 0.5 } },
  tokensLeft: 2_000_000,
  costLeft: 1,
};

describe("[G5] how things stand", () => {
  it("[G5] is told in one row where there is room", () => {
    expect(statusLine(ALL, 200, plain)).toMatch(
      /^with ada · gpt-5 · context 10 % of 128k, compacts at 80 % · 1\.2k in, 950 out · \$\S+ · 2M tokens left · \$\S+ left · tools workspace · not kept$/,
    );
    const bare = { ...ALL, agent: undefined, context: undefined, usage: undefined, isKept: true };
    expect(statusLine({ ...bare, tokensLeft: undefined, costLeft: undefined }, 200, plain)).toBe(
      "gpt-5 · tools workspace",
    );
  });

  it("[G5] leaves out first what matters least: what was used, tools, whether it is kept; the model stays", () => {
    const wholes = ["1.2k in", "tools", "not kept", "with ada", "$0.50 ·", "tokens left", "context", "gpt-5"];
    const gone: string[] = [];
    for (let columns = 200; columns > 5; columns -= 1) {
      const row = statusLine(ALL, columns, plain);
      for (const part of wholes) if (!row.includes(part) && !gone.includes(part)) gone.push(part);
    }
    expect(gone).toEqual(wholes.slice(0, -1));
    expect(statusLine(ALL, 4, plain)).toBe("gp…");
  });

  it("[G5] says what is known of a context, and in another colour when it is nearly full", () => {
    const paint = createPaint(output, { FORCE_COLOR: "1" });
    const row = (context: ChatStatus["context"]) => statusLine({ ...ALL, context }, 200, paint);
    expect(row({ used: 95, window: undefined, threshold: 100 })).toBe(
      paint.yellow(stripVTControlCharacters(row({ used: 95, window: undefined, threshold: 100 }))),
    );
    expect(row({ used: 50, window: undefined, threshold: 100 })).toContain("context 50 % of 100 ");
    expect(row({ used: 1_000, window: undefined, threshold: undefined })).toContain("context 1k ");
    expect(row({ used: 50, window: 100, threshold: 100 })).toContain("context 50 % of 100 ·");
  });

  it("[G5] is never wider than the columns", () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 120 }), fc.string({ unit: "grapheme" }), (columns, model) => {
        expect(cellsOf(statusLine({ ...ALL, model }, columns, plain))).toBeLessThan(columns);
      }),
    );
  });

  it.each(["none", "safe", "workspace", "full"] as const)(
    "[G5] names the tools %s as they were asked for, also where every session has memory",
    async (toolPreset) => {
      const { runtime } = scriptedRuntime([{ text: "Noted." }], { store: createInMemoryStore(), memory: {} });
      const { id } = await runtime.createSession("Begin.", { toolPreset });
      const opened = { runtime, isKept: true, config: configWith({}) };
      expect((await readChatStatus(opened, id, toolPreset)).tools).toBe(toolPreset);
      // A session that was found again: nobody has asked for tools here.
      if (toolPreset === "workspace") expect((await readChatStatus(opened, id, "safe")).tools).toBe("workspace");
    },
  );
});
