// Prunes a state folder until it is killed, telling its parent when it begins and when it has ended.
import { openRuntime } from "@rkat/node/open-runtime";
import { configWith } from "../support/runtime.ts";

const [stateFolder = ""] = process.argv.slice(2);
const config = configWith({ memory: { embedder: "hashing" }, retention: { labels: { "keep=short": 1 } } });
const runtime = await openRuntime({
  stateFolder,
  config,
  model: "offline",
  toolPreset: "none",
  env: {},
  isShortLived: true,
});
process.stdout.write("pruning\n");
await runtime.dispatch("prune", {});
process.stdout.write("pruned\n");
await runtime.close();
