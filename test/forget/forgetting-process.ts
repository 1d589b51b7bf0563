// Begins and ends jobs and keeps receipts in a folder until it is killed, telling its parent of each that was acknowledged.
import { createForgettingFiles } from "@rkat/node/log/forgetting-files";

const [folder = "", life = "0"] = process.argv.slice(2);
const kept = createForgettingFiles({ folder, warn: (sentence) => process.stderr.write(`${sentence}\n`) });
const print = (what: string): boolean => process.stdout.write(`${what}\n`);

for (let round = 0; ; round += 1) {
  const id = `${life}-${round}`;
  await kept.begin(id, `the secret of ${id} is Ottilie Heron ${"x".repeat(20_000)}`);
  print(`begun ${id}`);
  if (round % 3 === 0) continue;
  print(`ending ${id}`);
  await kept.end(id);
  print(`ended ${id}`);
  await kept.keep(JSON.stringify({ id }));
  print(`kept ${id}`);
}
