// Opens one folder twice at a time, again and again, and searches through both: each loads a model of its own.
import { openRuntime } from "../../src/runtime-on-disk.ts";

const [stateFolder = "", rounds = "1"] = process.argv.slice(2);
for (let round = 0; round < Number(rounds); round += 1) {
  const options = {
    stateFolder,
    model: "offline",
    env: {},
    warn: (sentence: string) => process.stderr.write(`${sentence}\n`),
  };
  const [one, other] = await Promise.all([openRuntime(options), openRuntime(options)]);
  await one.createSession(`Round ${round}: the heron stood in the pond.`);
  const modes = await Promise.all(
    [one, other].map(async (runtime) => (await runtime.dispatch("searchHistory", { query: "a bird" })).mode),
  );
  await Promise.all([one.close(), other.close()]);
  process.stdout.write(`${modes.join(" ")}\n`);
}
