// Delegates three tasks to sub-agents: each works in its own session, and its usage counts in the parent's budget.
import assert from "node:assert/strict";
import { createInMemoryStore, createRuntime, type ModelClient } from "rkat";

// Stands in for a model: asked to survey the ponds it hands one to each of three, who look and report.
const model: ModelClient = {
  provider: "example",
  modelId: "example",
  contextWindow: 16_000,
  async *stream({ messages }) {
    const last = messages.at(-1);
    const asked = JSON.stringify(last);
    const call = (name: string, args: Record<string, unknown>) =>
      ({ type: "block", block: { block_type: "tool_use", data: { id: crypto.randomUUID(), name, args } } }) as const;
    let isCall = true;
    if (last?.role === "user" && asked.includes("Survey")) {
      for (const pond of ["north", "mill", "far"])
        yield call("agent", { task: `Count the herons of the ${pond} pond.` });
    } else if (last?.role === "user") yield call("look", { pond: /the (\w+) pond/.exec(asked)?.[1] ?? "" });
    else {
      isCall = false;
      const found = [...asked.matchAll(/(\d+) herons at the (\w+) pond/g)].map(([text]) => text);
      yield { type: "text_delta", delta: found.join(", ") };
    }
    const usage = { input_tokens: 100, output_tokens: 10 };
    yield { type: "finish", stopReason: isCall ? "tool_use" : "end_turn", usage };
  },
};

const herons: Record<string, number> = { north: 3, mill: 2, far: 4 };
const runtime = createRuntime({
  model,
  store: createInMemoryStore(),
  toolPreset: "safe",
  tools: [
    {
      name: "look",
      description: "Looks at a pond.",
      inputSchema: { type: "object", properties: { pond: { type: "string" } }, required: ["pond"] },
      execute: ({ pond }) => `${herons[String(pond)]} herons at the ${pond} pond`,
    },
  ],
});
const session = await runtime.createSession({ enableAgents: true, budgetLimits: { max_tokens: 5_000 } });
const stream = session.stream("Survey the ponds.");
for await (const event of stream) {
  if (event.type === "sub_agent_started") console.log(`${event.agent} begins: ${event.task}`);
  if (event.type === "sub_agent_event") console.log(`  ${event.event.type}`);
  if (event.type === "sub_agent_completed") console.log(`${event.agent} has ${event.status}`);
}
const { text, usage, delegated } = await stream.result;
console.log(text);
assert.equal(text, "3 herons at the north pond, 2 herons at the mill pond, 4 herons at the far pond");
assert.equal(usage.totalTokens, 220);
assert.deepEqual(delegated, { usage: { input_tokens: 600, output_tokens: 60 }, tool_calls: 3 });
await runtime.close();
