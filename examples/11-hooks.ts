// A guard refuses a call, a rewrite takes an address out of a result, an observer counts what models took.
import assert from "node:assert/strict";
import { createRuntime, createScriptedModel } from "rkat";

const model = createScriptedModel([
  {
    calls: [
      { id: "a", name: "deploy", args: { stage: "prod" } },
      { id: "b", name: "look_up", args: { name: "Ada" } },
    ],
  },
  { text: "I may not deploy, and the address is not mine to tell." },
]);

const deployed: unknown[] = [];
let tokens = 0;
const runtime = createRuntime({
  model,
  tools: [
    {
      name: "deploy",
      description: "Deploys to a stage.",
      inputSchema: { type: "object", properties: { stage: { type: "string" } } },
      execute: ({ stage }) => {
        deployed.push(stage);
        return "deployed";
      },
    },
    {
      name: "look_up",
      description: "Looks a person up.",
      inputSchema: { type: "object", properties: { name: { type: "string" } } },
      execute: ({ name }) => `${name}: ada@example.org`,
    },
  ],
  hooks: [
    {
      id: "no-prod",
      point: "pre_tool_execution",
      capability: "guardrail",
      tools: ["deploy"],
      run: ({ tool_call }) =>
        tool_call?.args.stage === "prod"
          ? { decision: { decision: "deny", reason_code: "policy_violation", message: "ask a person" } }
          : undefined,
    },
    {
      id: "no-addresses",
      point: "post_tool_execution",
      capability: "rewrite",
      run: ({ tool_result }) => ({
        patches: [{ patch_type: "tool_result", content: tool_result?.content.replace(/\S+@\S+/g, "[address]") ?? "" }],
      }),
    },
    {
      id: "count",
      point: "post_llm_response",
      run: ({ llm_response }) => {
        tokens += llm_response?.usage.output_tokens ?? 0;
        return undefined;
      },
    },
  ],
});

const session = await runtime.createSession();
const stream = session.stream("Deploy to prod, and tell me Ada's address.");
const results: string[] = [];
for await (const event of stream) {
  if (event.type === "hook_denied") console.log(`${event.hook_id} refused: ${event.message}`);
  if (event.type === "tool_execution_completed") results.push(event.result);
}
console.log(results.join("\n"));

assert.deepEqual(results, ["denied by hook no-prod: ask a person", "Ada: [address]"]);
assert.deepEqual(deployed, []);
assert.ok(tokens > 0);
await runtime.close();
