// Runs turns of a session whose compactions are prepared until it is killed, telling its parent of what is done.
import { flushCompileCache } from "node:module";
import { setImmediate } from "node:timers/promises";
import { createRuntime } from "@rkat/core/create-runtime";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { createCompactingModel, look, PREPARED } from "./compacting-model.ts";

// It never ends by itself, so what it compiled would not be kept for the next one.
flushCompileCache();

const [folder = "", known] = process.argv.slice(2);
const say = (line: string): boolean => process.stdout.write(`${line}\n`);

/** So often the event loop goes round while a summary is written: turns go on meanwhile. */
const ROUNDS = 40;

const runtime = createRuntime({
  model: createCompactingModel(async () => {
    say("summarising");
    for (let round = 0; round < ROUNDS; round += 1) await setImmediate();
  }),
  store: await openEmbeddedStore(folder),
  tools: [look],
  toolPreset: "none",
  compaction: PREPARED,
  env: {},
});
const session = known === undefined ? await runtime.createSession("write a parser") : runtime.session(known);
say(`session ${session.id}`);
for (let turn = 1; ; turn += 1) {
  const { events } = await turned(turn);
  for (const type of events) if (type.startsWith("compaction_")) say(type);
  say(`turned ${turn}`);
}

async function turned(turn: number): Promise<{ events: readonly string[] }> {
  const events: string[] = [];
  const stream = session.stream(`turn ${turn}: and then?`);
  for await (const { type } of stream) events.push(type);
  await stream.result;
  return { events };
}
