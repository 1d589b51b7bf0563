import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createLocalEmbedder } from "./local.ts";
import { openDefaultEmbedder } from "./open-embedder.ts";
import { createStaticEmbedder } from "./static.ts";

describe("the default embedder", () => {
  it("[D5] is the local one where it can be loaded", async () => {
    const told: string[] = [];
    const embedder = await openDefaultEmbedder((sentence) => told.push(sentence));
    expect({ id: embedder.id, told }).toEqual({ id: createLocalEmbedder().id, told: [] });
    await embedder.close();
  });

  it("[D5] is the static one otherwise, and says so once", async () => {
    const told: string[] = [];
    const broken = createLocalEmbedder({ weights: { name: "absent.onnx", sha256: "00" } });
    const embedder = await openDefaultEmbedder((sentence) => told.push(sentence), broken);
    await embedder.embed(["hello"], "query", new AbortController().signal);
    expect({ id: embedder.id, told }).toEqual({
      id: createStaticEmbedder().id,
      told: [expect.stringMatching(/^absent\.onnx cannot be read: .*; word vectors are used instead/)],
    });
  });

  it("[D5] is the static one in a process with a command line that would crash the native runtime", () => {
    const script = `
      import { openDefaultEmbedder } from ${JSON.stringify(join(import.meta.dirname, "open-embedder.ts"))};
      const embedder = await openDefaultEmbedder((sentence) => console.log(sentence));
      const [vector] = await embedder.embed(["hello"], "query", new AbortController().signal);
      console.log(vector.length > 0);
      await embedder.close();
    `;
    const args = ["--input-type=module", "-e", script, "heron ".repeat(4_000)];
    const { status, stdout } = spawnSync(process.execPath, args, { encoding: "utf8" });
    expect({ status, stdout }).toEqual({
      status: 0,
      stdout: expect.stringMatching(/^the local embedder cannot be used: the command line is longer .*\ntrue\n$/),
    });
  });
});
