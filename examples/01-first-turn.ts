// A first turn: a session, a tool of your own, events as they happen, a follow-up, a typed result.
import assert from "node:assert/strict";
import { createRuntime, defineTool } from "rkat";
import { z } from "zod";

const weather = defineTool({
  name: "weather",
  description: "The weather in a city.",
  input: z.strictObject({ city: z.string().describe("Name of the city") }),
  run: ({ city }) => ({ city, sky: "clear", celsius: 7 }),
});

// "offline" is the built-in model: no key, no network. Name another one, such as "claude-sonnet-4-5", to use it.
const runtime = createRuntime({ model: "offline", tools: [weather], toolPreset: "safe" });

// The first turn, watched live.
const stream = runtime.createSessionStreaming("Remember: the launch is on 12 May at pier 7. What time is it now?");
const seen = new Set<string>();
for await (const event of stream) {
  seen.add(event.type);
  if (event.type === "text_delta") process.stdout.write(event.delta);
  if (event.type === "tool_call_requested") console.log(`→ ${event.name} ${JSON.stringify(event.args)}`);
}
console.log();
assert(seen.has("tool_call_requested") && seen.has("run_completed"));

// Another turn of the same session.
const session = await stream.session;
const answer = await session.turn("Where is the launch?");
console.log(answer.text);
assert.match(answer.text, /pier 7/);

// A turn that must end within a budget, and a result of a given shape.
const typed = await runtime.createSession("The port is 7443 and the host is db.internal. Report both.", {
  budgetLimits: { maxTokens: 10_000, maxDuration: "30s" },
  outputSchema: z.object({ host: z.string(), port: z.int() }),
});
console.log(typed.structuredOutput?.host);
assert.deepEqual(typed.structuredOutput, { host: "db.internal", port: 7443 });

await runtime.close();
