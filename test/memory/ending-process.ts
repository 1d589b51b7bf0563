// Ends in the way it is told, so many milliseconds after it began to load the local model and to embed by it.
import { createLocalEmbedder } from "@rkat/node/embedders/local";

const [ending = "", afterMs = "0"] = process.argv.slice(2);
const embedder = createLocalEmbedder();
const texts = Array.from({ length: 8 }, (_, at) => `${"A heron stood in the pond. ".repeat(20)}${at}`);
const embedding = embedder.embed(texts, "passage", new AbortController().signal).catch(() => {});

await new Promise((resolve) => setTimeout(resolve, Number(afterMs)));
switch (ending) {
  case "exit":
    process.exit(7);
    break;
  case "error":
    setImmediate(() => {
      throw new Error("the heron flew away");
    });
    break;
  case "signal":
    process.kill(process.pid, "SIGTERM");
    break;
  case "close":
    await embedder.close();
    await embedding;
    break;
}
