import { describe, expect, it } from "vitest";
import { serveRest } from "../../../../test/support/rest-server.ts";
import { openTracing } from "../../../../test/support/tracing.ts";

describe("a request that is part of a trace", () => {
  it("[G9] [G3] has its turn, its search and its compaction in that trace", async () => {
    const { tracer, spanTrees } = openTracing();
    const { call } = await serveRest({ telemetry: { tracer }, memory: {}, compaction: { recentTurnBudget: 1 } });
    const caller = tracer.startSpan("caller");
    const { traceId, spanId } = caller.spanContext();
    const headers = { traceparent: `00-${traceId}-${spanId}-01` };
    const { session_id } = (await call("POST /sessions", { prompt: "The cat is called Ada." }, headers)).body;
    await call(`POST /sessions/${session_id}/messages`, { prompt: "The dog is called Bob." }, headers);
    await call(`POST /sessions/${session_id}/messages`, { prompt: "The bird is called Cem." });
    expect(await call(`POST /sessions/${session_id}/compact`, {}, headers)).toMatchObject({
      body: { compacted: true },
    });
    await call("GET /memory/search?query=cat", undefined, headers);
    caller.end();
    const names = spanTrees().map(({ name, children }) => [name, ...children.map((child) => child.name)]);
    expect(names).toEqual([
      ["caller", "invoke_agent", "invoke_agent", "compact", "search_memory"],
      ["invoke_agent", "chat offline"],
    ]);
  });
});
