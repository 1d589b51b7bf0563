import { describe, expect, it } from "vitest";
import { createHeldModel, SUMMARY, SUMMARY_USAGE } from "../../../../test/support/held-summaries.ts";
import { goOn, isCompacted, open, saidMuch, waitForEvent } from "../../../../test/support/prepared-sessions.ts";
import { openTracing } from "../../../../test/support/tracing.ts";

const CHAT = { name: "chat scripted", kind: "CLIENT", status: "ok", children: [] };

describe("[G9] [J2] the span of a compaction that is prepared", () => {
  it("is one of its own with the chat in it, and is no part of a turn; to use it is another without a chat", async () => {
    const tracing = openTracing();
    const model = createHeldModel();
    const runtime = open(model, { telemetry: { tracer: tracing.tracer } });
    const { session } = await saidMuch(model, runtime);
    model.release();
    const { compaction_id } = await waitForEvent(session, "compaction_prepared");
    await goOn(session, () => isCompacted(session));
    await runtime.close();
    const trees = tracing.spanTrees();
    const alone = trees.filter(({ name }) => name === "compact");
    expect(alone).toMatchObject([
      {
        kind: "INTERNAL",
        status: "ok",
        attributes: {
          "gen_ai.operation.name": "compact",
          "gen_ai.conversation.id": session.id,
          "rkat.compaction.id": compaction_id,
          "rkat.compaction.prepared": true,
          "rkat.compaction.summary_tokens": 100,
          "rkat.compaction.receipt.lost": 0,
        },
        children: [{ ...CHAT, attributes: { "gen_ai.usage.input_tokens": SUMMARY_USAGE.input_tokens } }],
      },
    ]);
    const within = trees.flatMap(({ children }) => children).filter(({ name }) => name === "compact");
    expect(within).toMatchObject([{ status: "ok", attributes: { "rkat.compaction.id": compaction_id }, children: [] }]);
    // What was said is told to nobody who did not ask for it.
    expect(tracing.text()).not.toContain(SUMMARY);
  });

  it("says why one was dropped", async () => {
    const tracing = openTracing();
    const model = createHeldModel({ summary: "​" });
    const runtime = open(model, { telemetry: { tracer: tracing.tracer } });
    const { session } = await saidMuch(model, runtime);
    model.release();
    await waitForEvent(session, "compaction_dropped");
    await runtime.close();
    const [dropped] = tracing.spanTrees().filter(({ name }) => name === "compact");
    expect(dropped).toMatchObject({ attributes: { "error.type": "compaction_dropped" }, children: [CHAT] });
    expect(dropped?.status).toMatch(/^error/);
  });
});
