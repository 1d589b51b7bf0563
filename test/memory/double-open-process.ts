// Opens one folder twice at a time, again and again, and searches through both: each loads a model of its own.
import { openRuntime } from "@rkat/node/open-runtime";

const SEARCHES_MAX = 60;
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
  // A search that has waited a second for its model answers by words: asked again, it has the model.
  const modes = await Promise.all(
    [one, other].map(async (runtime) => {
      const find = async () => (await runtime.dispatch("searchHistory", { query: "a bird" })).mode;
      for (let asked = 1; asked < SEARCHES_MAX; asked += 1) if ((await find()) === "hybrid") return "hybrid";
      return await find();
    }),
  );
  await Promise.all([one.close(), other.close()]);
  process.stdout.write(`${modes.join(" ")}\n`);
}
