// Talks in several sessions and searches them until it is killed, telling its parent of everything it has done.
import { flushCompileCache } from "node:module";
import { factWith, openRuntimeOf, wordFor } from "./planted-facts.ts";

const SESSIONS = 2;
const [folder = "", life = "0", era = "0"] = process.argv.slice(2);
const say = (line: string): boolean => process.stdout.write(`${line}\n`);

const runtime = await openRuntimeOf({
  folder,
  life,
  compacted: (id) => {
    say(`compacted ${id}`);
    flushCompileCache();
  },
  embedding: () => say("embedding"),
});
// It never ends by itself, so what it compiled would not be there for the next one.
flushCompileCache();
const left = await runtime.dispatch("readMemoryStatus", {});
say(`found ${left.sessions_behind} behind and ${left.pending} pending`);
const labels = { era };
const known = (await runtime.listSessions({ labels })).map(({ sessionId: session_id }) => session_id);

async function talk(place: number, turn: number): Promise<void> {
  const word = wordFor(Number(life), place, turn);
  const sessionId = known[place];
  if (sessionId === undefined) known[place] = (await runtime.createSession(factWith(word), { labels })).id;
  else await runtime.session(sessionId).turn(factWith(word));
  say(`said ${word}`);
}

async function search(query: string): Promise<void> {
  await runtime.searchMemory(query);
  say("searched");
}

const places = Array.from({ length: SESSIONS }, (_, place) => place);
for (let turn = 1; ; turn += 1) {
  await Promise.all([
    ...places.map((place) => talk(place, turn)),
    search("rain"),
    search(wordFor(Number(life), 0, turn)),
  ]);
}
