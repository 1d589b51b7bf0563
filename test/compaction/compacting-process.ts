// Runs turns of a session and compacts it until it is killed, telling its parent of everything it has done.
import { flushCompileCache } from "node:module";
import { setImmediate } from "node:timers/promises";
import { createRuntime } from "@rkat/core/create-runtime";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { createCompactingModel, look, OFTEN } from "./compacting-model.ts";

// It never ends by itself, so what it compiled would not be kept for the next one.
flushCompileCache();

const [folder = "", known] = process.argv.slice(2);
const say = (line: string): boolean => process.stdout.write(`${line}\n`);

/** So often the event loop goes round while a summary is written: a kill can come before, between and after. */
const ROUNDS = 5;

const runtime = createRuntime({
  model: createCompactingModel(async () => {
    say("summarising");
    for (let round = 0; round < ROUNDS; round += 1) await setImmediate();
  }),
  store: await openEmbeddedStore(folder),
  tools: [look],
  toolPreset: "safe",
  compaction: OFTEN,
  env: {},
});
const session = known === undefined ? await runtime.createSession("write a parser") : runtime.session(known);
say(`session ${session.id}`);
for (let turn = 1; ; turn += 1) {
  await session.turn(`turn ${turn}: and then?`);
  say("turned");
  if (turn % 2 > 0) continue;
  say(`before ${(await session.context()).sha256}`);
  const { compaction } = await session.compact();
  if (compaction === undefined) say("nothing to compact");
  else say(`after ${(await session.context()).sha256} ${compaction.compactionId}`);
}
