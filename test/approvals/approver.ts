// A process of its own that asks, answers or goes on, and writes down every call that really runs; killed at any moment.
import { appendFileSync } from "node:fs";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { defineTool, openRuntime } from "@rkat/node";
import { z } from "zod";

const [, , folder = "", ran = "", what = "", session = "", approval = ""] = process.argv;
const wipe = defineTool({
  name: "wipe",
  description: "Wipes.",
  input: z.object({ what: z.string() }),
  needsApproval: true,
  run: (input) => {
    appendFileSync(ran, `${input.what}\n`);
    return `wiped ${input.what}`;
  },
});
const calls = ["disk", "table", "slate"].map((name) => ({ id: `call_${name}`, name: "wipe", args: { what: name } }));
const model = createScriptedModel(({ messages }) =>
  messages.some(({ role }) => role === "tool_results") ? { text: "Done." } : { calls },
);
const runtime = await openRuntime({ stateFolder: folder, model, env: {}, tools: [wipe] });
process.on("disconnect", () => process.exit(0));
if (what === "ask") {
  const stream = runtime.createSessionStreaming("Go.");
  for await (const event of stream) if (event.type === "tool_approval_requested") process.send?.(event);
} else {
  const turn = runtime.session(session).answerApproval({ approvalId: approval, decision: "allow" });
  process.send?.("answering");
  await turn;
  process.send?.("answered");
  for await (const { event } of runtime.subscribe(session, { after: 0 })) if (event.type === "run_completed") break;
}
await runtime.close();
process.disconnect?.();
