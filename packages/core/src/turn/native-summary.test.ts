import { describe, expect, it } from "vitest";
import { summaryMessage } from "../compaction/shown-messages.ts";
import type { EntryBodyOf } from "../contract/entry.ts";
import type { Message } from "../contract/message.ts";
import type { ModelClient } from "../ports/model.ts";
import type { CompactionRecord } from "../state/context.ts";
import { hostOf, nativeSummaryIn } from "./native-summary.ts";

const created_at = "2026-01-01T00:00:00Z";
const usage = { input_tokens: 1, output_tokens: 1 };
const item = { type: "compaction", id: "cmp_1" };
const native = { provider: "openai", model: "gpt", host: "api.test", bytes: 9, usage, item };
const rules = [
  { seq: 3, text: "Never push to main.", follows: true },
  { seq: 5, text: "Always test.", follows: false },
];
const body = { summary: "All is well.", rules, created_at, compaction_id: "c1", native };

// Only what the decision reads of a compaction is there.
const record = (more: Partial<CompactionRecord> = {}): CompactionRecord => ({
  seq: 9,
  body: body as unknown as EntryBodyOf<"compacted">,
  madeFrom: 4,
  undone: false,
  expanded: [],
  ...more,
});
const model: ModelClient = {
  provider: "openai",
  modelId: "gpt",
  contextWindow: undefined,
  url: "https://user:secret@api.test/v1",
  compaction: { takesInstructions: false, async *stream() {} },
  async *stream() {},
};
const system: Message = { role: "system", content: "Be brief.", created_at };
const summary = summaryMessage(body);
const question: Message = { role: "user", content: "And now?", created_at };
const messages = [system, summary, question];

describe("whether a call carries a provider's own compaction", () => {
  it("[C6] does, with every rule of the user after it, also those the summary says", () => {
    const found = nativeSummaryIn(messages, { model, compactions: [record()], isOn: true });
    const following = expect.stringMatching(/word for word.*:\n- Never push to main\.\n- Always test\.$/);
    expect(found).toEqual({ compactionId: "c1", item, following });
  });

  it("[C8] still does when a later compaction only showed results as references, and carried the summary", () => {
    const { native: _, ...without } = body;
    const later = { ...without, compaction_id: "c2", summary: "" } as unknown as EntryBodyOf<"compacted">;
    const compactions = [record(), record({ seq: 20, body: later })];
    expect(nativeSummaryIn(messages, { model, compactions, isOn: true })).toMatchObject({ compactionId: "c1" });
  });

  it.each<[string, Partial<Parameters<typeof nativeSummaryIn>[1]>, (readonly Message[])?]>([
    ["it is off", { isOn: false }],
    ["the compaction is undone", { compactions: [record({ undone: true })] }],
    ["it was refused", { compactions: [record({ nativeRefused: true })] }],
    ["the model is another", { model: { ...model, modelId: "gpt-mini" } }],
    ["the provider is another", { model: { ...model, provider: "azure" } }],
    ["the server is another", { model: { ...model, url: "https://gateway.test/v1" } }],
    ["nobody knows the server", { model: { ...model, url: undefined } }],
    ["the model cannot read it", { model: { ...model, compaction: undefined } }],
    ["there is no compaction", { compactions: [] }],
    ["something comes before the summary", {}, [system, question, summary]],
    ["the summary is not shown", {}, [system, question]],
    ["a compactor wrote the message itself", {}, [{ ...summary, content: "Mine: all is well." }, question]],
  ])("[C6] not where %s", (_why, change, shown = messages) => {
    expect(nativeSummaryIn(shown, { model, compactions: [record()], isOn: true, ...change })).toBeUndefined();
  });

  it("[C11] of an address no more is kept than whose it is", () => {
    expect(hostOf(model)).toBe("api.test");
    expect(hostOf({ url: "not an address" })).toBeUndefined();
  });
});
