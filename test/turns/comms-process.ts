// Has a session of a folder tell another what each line of stdin says, until it is killed; prints what its models are asked.
import { createInterface } from "node:readline";
import type { Message } from "@rkat/core/contract/message";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { contentText } from "@rkat/core/turn/tokens";
import { openRuntime } from "@rkat/node/open-runtime";

const [stateFolder = "", teller = ""] = process.argv.slice(2);
const textOf = (message: Message | undefined): string => (message?.role === "user" ? contentText(message.content) : "");
const runtime = await openRuntime({
  stateFolder,
  model: createScriptedModel(({ messages }) => {
    const body = textOf(messages.at(-1));
    if (body === "") return { text: "Done." };
    process.stdout.write(`asked ${body}\n`);
    return { calls: [{ name: "send_message", args: { peer_id: "bob", body } }] };
  }),
  toolPreset: "none",
  resumeTurns: true,
  env: {},
});
process.stdout.write("ready\n");
for await (const line of createInterface({ input: process.stdin })) {
  if (line === "") break;
  void runtime.dispatch("startTurn", { session_id: teller, prompt: line, when_busy: "queue" }).catch(() => {});
}
await runtime.close();
process.stdin.destroy();
