import { join, resolve } from "node:path";
import { debugging, longTurn, refactoring, research } from "./recorded-code.ts";
import { german, japanese, support } from "./recorded-talk.ts";
import { dataAnalysis, incident, months } from "./recorded-work.ts";
import { record } from "./recording.ts";

// Makes the logs that `rkat compact simulate` is tried with again: scripted models, real tools, real outputs. What they
// read is this repository at one commit, so they come out the same.
const repository = resolve(import.meta.dirname, "..");
const folder = join(repository, "bench", "logs");
const only = process.argv.slice(2);
const talks = [support, german, japanese].map((make) => () => ({ recording: make(), close: () => {} }));
const ofCode = [debugging, refactoring, research, longTurn].map((make) => () => make(repository));

for (const open of [...ofCode, dataAnalysis, incident, months, ...talks]) {
  const { recording, close } = open();
  try {
    if (only.length > 0 && !only.includes(recording.name)) continue;
    const { bytes, calls } = await record(recording, folder);
    console.log(`${recording.name}: ${calls} calls, ${Math.round(bytes / 1_000)} KB`);
  } finally {
    close();
  }
}
