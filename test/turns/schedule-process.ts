// Runs the schedules of a folder or a database until it is killed: prints each prompt it is asked, and answers those that a line of stdin names.
import { createInterface } from "node:readline";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { contentText } from "@rkat/core/turn/tokens";
import { openRuntime } from "@rkat/node/open-runtime";

const [stateFolder = "", store] = process.argv.slice(2);
const scripted = createScriptedModel(() => ({ text: "Done." }));
const answers = new Map<string, PromiseWithResolvers<void>>();
const answerTo = (prompt: string): PromiseWithResolvers<void> => {
  const known = answers.get(prompt) ?? Promise.withResolvers<void>();
  answers.set(prompt, known);
  return known;
};
const runtime = await openRuntime({
  stateFolder,
  store,
  model: {
    ...scripted,
    stream: async function* (request, signal) {
      const asked = request.messages.findLast(({ role }) => role === "user");
      const prompt = asked?.role === "user" ? contentText(asked.content) : "";
      process.stdout.write(`asked ${prompt}\n`);
      await answerTo(prompt).promise;
      yield* scripted.stream(request, signal);
    },
  },
  toolPreset: "none",
  resumeTurns: true,
  runSchedules: true,
  env: {},
});
process.stdout.write("ready\n");
for await (const line of createInterface({ input: process.stdin })) {
  if (line === "") break;
  answerTo(line).resolve();
}
await runtime.close();
process.stdin.destroy();
