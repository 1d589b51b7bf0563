import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createLocalEmbedder } from "./local.ts";
import { openDefaultEmbedder } from "./open-embedder.ts";
import { createStaticEmbedder } from "./word-vectors.ts";

const never = new AbortController().signal;

describe("the default embedder", () => {
  it("[D5] is the local one where it can be loaded", async () => {
    const told: string[] = [];
    const embedder = await openDefaultEmbedder((sentence) => told.push(sentence), never);
    expect({ id: embedder.id, told }).toEqual({ id: createLocalEmbedder().id, told: [] });
    await embedder.close();
  });

  it("[D5] is the static one otherwise, and says so once", async () => {
    const told: string[] = [];
    const broken = createLocalEmbedder({ weights: { name: "absent.onnx", sha256: "00" } });
    const embedder = await openDefaultEmbedder((sentence) => told.push(sentence), never, broken);
    await embedder.embed(["hello"], "query", never);
    expect({ id: embedder.id, told }).toEqual({
      id: createStaticEmbedder().id,
      told: [expect.stringMatching(/^absent\.onnx cannot be read: .*; word vectors are used instead/)],
    });
  });

  it("[D5] is the local one also in a process with a command line that would crash the native runtime", () => {
    const script = `
      import { openDefaultEmbedder } from ${JSON.stringify(join(import.meta.dirname, "open-embedder.ts"))};
      const embedder = await openDefaultEmbedder((sentence) => console.log(sentence), new AbortController().signal);
      const [vector] = await embedder.embed(["hello"], "query", new AbortController().signal);
      console.log(vector.length);
      await embedder.close();
    `;
    const args = ["--input-type=module", "-e", script, "heron ".repeat(4_000)];
    const { status, stdout } = spawnSync(process.execPath, args, { encoding: "utf8" });
    expect({ status, stdout }).toEqual({ status: 0, stdout: "384\n" });
  });

  it("[D5] is not waited for by whoever gives up while it is loaded", async () => {
    const stop = new AbortController();
    const opened = openDefaultEmbedder(() => {}, stop.signal);
    stop.abort();
    await expect(opened).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    await expect(openDefaultEmbedder(() => {}, stop.signal)).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
  });
});
