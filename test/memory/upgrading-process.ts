// Searches a memory whose vectors are of older weights until it is killed, telling its parent what it found.
import { readFileSync } from "node:fs";
import { createRandom } from "../crash/random.ts";
import { openRuntimeOf } from "./planted-facts.ts";

const [folder = "", life = "0"] = process.argv.slice(2);
const say = (line: string): boolean => process.stdout.write(`${line}\n`);
const words = readFileSync(`${folder}/words.txt`, "utf8").split("\n");
const random = createRandom(Number(life));

/** A model takes its time: the kills shall hit the upgrade, not what follows it. */
const TEXTS_MS = 20;
const pause = new Int32Array(new SharedArrayBuffer(4));
const embedding = (): void => {
  say("embedding");
  Atomics.wait(pause, 0, 0, TEXTS_MS);
};

const runtime = await openRuntimeOf({ folder, life, weights: "new", embedding });
for (;;) {
  const word = words[Math.floor(random() * words.length)] ?? "";
  const { results } = await runtime.searchMemory(word);
  const places = results.map((hit) => `${hit.sessionId} ${hit.seq} ${hit.content}`);
  const isSound = results[0]?.content.includes(word) === true && new Set(places).size === places.length;
  say(isSound ? "searched" : `wrong for ${word}`);
}
