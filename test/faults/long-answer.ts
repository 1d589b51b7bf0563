// A model that does not stop, in a process with little memory: what became of the turn, as a line.

import { createRuntime } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { openEmbeddedStore } from "@rkat/node/open-runtime";

const [folder = ""] = process.argv.slice(2);
const DELTAS = 80 * 1_024;
const delta = "An answer that does not end. ".repeat(36).slice(0, 1_024);
const model = createScriptedModel([{ text: Array.from({ length: DELTAS }, () => delta) }, { text: "Here again." }]);
const runtime = createRuntime({ model, store: await openEmbeddedStore(folder), env: {} });
const session = await runtime.createDeferredSession("Begin.");
const failure = await session.turn("Go.").catch((error: unknown) => error);
const { messages } = await session.history();
const kept = JSON.stringify(messages).split(delta).length - 1;
const { text } = await session.turn("And now?");
await runtime.close();
const message = failure instanceof Error ? failure.message : "it did not fail";
process.stdout.write(`${JSON.stringify({ message, kept, text })}\n`);
