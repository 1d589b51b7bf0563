import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { getPriority, tmpdir } from "node:os";
import { join } from "node:path";
import { STRANGERS } from "@rkat/core/recall/rank";
import { afterAll, describe, expect, it } from "vitest";
import { createLocalEmbedder } from "./local.ts";

const never = new AbortController().signal;
const shared = createLocalEmbedder();
afterAll(() => shared.close());

function similarity(a: Float32Array | undefined, b: Float32Array | undefined): number {
  return (a ?? new Float32Array()).reduce((sum, x, index) => sum + x * (b?.[index] ?? 0), 0);
}

/** The processes that this one started for a model and that still run. */
function modelProcesses(): readonly number[] {
  const all = execFileSync("ps", ["-A", "-o", "pid=,ppid=,args="], { encoding: "utf8" }).split("\n");
  const rows = all.map((line) => line.trim().split(/\s+/)).filter(([, ppid]) => ppid === String(process.pid));
  return rows.filter((row) => row.some((word) => word.includes("model-process"))).map(([pid]) => Number(pid));
}

const ODD_TEXTS = ["", " ", "\0", "日本語のテキスト", "👩‍👩‍👧‍👦🎉", "\ud800", "word ".repeat(5000), "x".repeat(5000)];

describe("the local embedder", () => {
  it("[D5] makes vectors of length 1, of any text", async () => {
    const vectors = await shared.embed(ODD_TEXTS, "passage", never);
    expect(vectors.map((vector) => vector.length)).toEqual(ODD_TEXTS.map(() => shared.dimensions));
    for (const vector of vectors) expect(similarity(vector, vector)).toBeCloseTo(1, 5);
  });

  it("[D5] makes the same vector in any batch, in another process", async () => {
    const texts = ["a short one", "a much longer text about the weather in the mountains of Norway", "7"];
    const together = await shared.embed(texts, "passage", never);
    const alone = await Promise.all(texts.map(async (text) => (await shared.embed([text], "query", never))[0]));
    expect(alone).toEqual(together);
    const other = createLocalEmbedder();
    expect(await other.embed(texts, "passage", never)).toEqual(together);
    await other.close();
  });

  it("[D5] finds a paraphrase without a word in common nearer than what is unrelated", async () => {
    const [question, paraphrase, unrelated] = await shared.embed(
      [
        "How much did the physician charge?",
        "The doctor's bill came to ninety dollars",
        "We painted the fence green on Sunday",
      ],
      "passage",
      never,
    );
    expect(similarity(question, paraphrase)).toBeGreaterThan(similarity(question, unrelated) + 0.05);
  });

  it("[D5] answers a question before the passages that wait", async () => {
    const order: string[] = [];
    const passages = Array.from({ length: 6 }, (_, index) => `passage ${index} `.repeat(40));
    const note = (name: string) => () => order.push(name);
    await Promise.all([
      ...passages.map((text) => shared.embed([text], "passage", never).then(note("passage"))),
      shared.embed(["a question"], "query", never).then(note("query")),
    ]);
    expect(order.indexOf("query")).toBeLessThan(3);
  });

  it("[D5] embeds where a child's channel cannot be let go of, as in Bun", () => {
    const script = `
      import children from "node:child_process";
      import { syncBuiltinESMExports } from "node:module";
      import { createLocalEmbedder } from ${JSON.stringify(join(import.meta.dirname, "local.ts"))};
      const { fork } = children;
      children.fork = (...given) => {
        const child = fork(...given);
        Object.assign(child.channel, { ref: undefined, unref: undefined });
        return child;
      };
      syncBuiltinESMExports();
      const embedder = createLocalEmbedder();
      const [vector] = await embedder.embed(["a heron"], "passage", new AbortController().signal);
      await embedder.close();
      console.log(vector.length);`;
    const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
    expect({ stdout, stderr }).toEqual({ stdout: "384\n", stderr: "" });
  });

  it("[D5] can be closed in the middle of a text, and the process goes on", () => {
    const script = `
      import { createLocalEmbedder } from ${JSON.stringify(join(import.meta.dirname, "local.ts"))};
      const texts = Array.from({ length: 4 }, (_, index) => "a heron in the pond ".repeat(100) + index);
      const codes = [];
      for (let round = 0; round < 6; round += 1) {
        const embedder = createLocalEmbedder();
        await embedder.load();
        const work = embedder.embed(texts, "passage", new AbortController().signal).catch(({ code }) => code);
        for (let turn = 0; turn < 4 ** round * 20; turn += 1) await new Promise(setImmediate);
        await embedder.close();
        codes.push(await work);
      }
      console.log(codes[0]);
    `;
    const { status, stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
      encoding: "utf8",
    });
    expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: "REQUEST_CANCELLED\n", stderr: "" });
  }, 60_000);

  it("[D5] is closed to the end when an answer comes in that nobody waits for any more", () => {
    const script = `
      const { createLocalEmbedder } = await import(${JSON.stringify(join(import.meta.dirname, "local.ts"))});
      const embedder = createLocalEmbedder();
      const signal = new AbortController().signal;
      await embedder.embed(["first"], "passage", signal);
      embedder.embed(["second"], "passage", signal).catch(() => {});
      await null;
      // Meanwhile the answer is written: it is read after the process was told to end, and before its end is heard.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000);
      await embedder.close();
      process.stdout.write("closed");`;
    const { status, stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
    expect({ status, stdout }).toEqual({ status: 0, stdout: "closed" });
  });

  it.each(["process.exit(7)", "setImmediate(() => { throw 1; })", "process.kill(process.pid, 'SIGTERM')", "0"])(
    "[D5] does not take the process with it that ends in the middle of a text, by %s",
    (ending) => {
      const script = `
        import { createLocalEmbedder } from ${JSON.stringify(join(import.meta.dirname, "local.ts"))};
        const embedder = createLocalEmbedder();
        await embedder.load();
        void embedder.embed(["a heron in the pond ".repeat(200)], "passage", new AbortController().signal);
        for (let turn = 0; turn < 50; turn += 1) await new Promise(setImmediate);
        ${ending};
      `;
      const { status, signal } = spawnSync(process.execPath, ["--input-type=module", "-e", script]);
      const ends: Record<string, unknown> = {
        "process.exit(7)": { status: 7, signal: null },
        "setImmediate(() => { throw 1; })": { status: 1, signal: null },
        "process.kill(process.pid, 'SIGTERM')": { status: null, signal: "SIGTERM" },
        "0": { status: 0, signal: null },
      };
      expect({ status, signal }).toEqual(ends[ending]);
    },
    60_000,
  );

  it("[D5] lowers its priority for indexing alone, and never rises above the program that started it", () => {
    // Only a privileged process may raise a priority again: for all others the attempt must not end the process.
    const script = `
      import { execFileSync } from "node:child_process";
      import { getPriority, setPriority } from "node:os";
      import { createLocalEmbedder } from ${JSON.stringify(join(import.meta.dirname, "local.ts"))};
      const priority = () => {
        const rows = execFileSync("ps", ["-A", "-o", "ppid=,ni=,args="], { encoding: "utf8" }).split("\\n");
        const children = rows.map((line) => line.trim().split(/\\s+/)).filter(([ppid]) => ppid === String(process.pid));
        return Number(children.find((each) => each.some((word) => word.includes("model-process")))?.[1]);
      };
      const { signal } = new AbortController();
      for (const own of [getPriority(), 15]) {
        setPriority(own);
        const embedder = createLocalEmbedder();
        const seen = [];
        for (const kind of ["query", "passage", "query"]) {
          await embedder.embed(["a text"], kind, signal);
          seen.push(priority() - own);
        }
        console.log(seen.slice(0, 2).join(" "), process.getuid() !== 0 || seen[2] === 0);
        await embedder.close();
      }
    `;
    const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
    const lowered = Math.max(10, getPriority()) - getPriority();
    expect({ stdout, stderr }).toEqual({ stdout: `0 ${lowered} true\n0 0 true\n`, stderr: "" });
  }, 60_000);

  it("[D5] knows the mean of its vectors of unrelated texts beforehand", async () => {
    const vectors = await shared.embed(STRANGERS, "passage", never);
    const [question] = await shared.embed(["which port does staging use"], "query", never);
    const mean = vectors.reduce((sum, vector) => sum + similarity(question, vector), 0) / vectors.length;
    expect(similarity(question, shared.unrelated)).toBeCloseTo(mean, 2);
  });

  it("[D5] goes on in another process when its own is killed, and leaves none behind", async () => {
    const [texts, embedder] = [["a heron ".repeat(200), "a pond", "the rain"], createLocalEmbedder()];
    const others = modelProcesses();
    const own = (): readonly number[] => modelProcesses().filter((pid) => !others.includes(pid));
    await embedder.load();
    const [first = 0] = own();
    const vectors = embedder.embed(texts, "passage", never);
    process.kill(first, "SIGKILL");
    expect(await vectors).toEqual(await shared.embed(texts, "passage", never));
    const [second = 0] = own();
    expect(second).not.toBe(first);
    process.kill(second, "SIGKILL");
    await expect.poll(own).toEqual([]);
    expect(await embedder.embed(["a pond"], "query", never)).toHaveLength(1);
    await embedder.close();
    expect(own()).toEqual([]);
  }, 60_000);

  it("[D5] ends a process that has had nothing to do, or does not answer, for too long", async () => {
    const embedder = createLocalEmbedder({ idleMsMax: 1 });
    expect(await embedder.embed(["one"], "query", never)).toHaveLength(1);
    expect(await embedder.embed(["two"], "query", never)).toHaveLength(1);
    await embedder.close();
    const silent = createLocalEmbedder({ answerMsMax: 1 });
    await expect(silent.load()).rejects.toMatchObject({ code: "CAPABILITY_UNAVAILABLE" });
    await silent.close();
  }, 60_000);

  it("[D5] stops at the signal, before and within a batch, and works afterwards", async () => {
    const stop = new AbortController();
    const texts = new Array<string>(200).fill("some words that take a while ".repeat(20));
    const stopped = shared.embed(texts, "passage", stop.signal);
    setTimeout(() => stop.abort(), 50);
    await expect(stopped).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    await expect(shared.embed(["x"], "query", AbortSignal.abort())).rejects.toMatchObject({
      code: "REQUEST_CANCELLED",
    });
    expect(await shared.embed(["x"], "query", never)).toHaveLength(1);
  });

  it("[D5] stops at the signal while the weights are loaded", async () => {
    const stop = new AbortController();
    const fresh = createLocalEmbedder();
    const stopped = fresh.embed(["x"], "query", stop.signal);
    stop.abort();
    const loaded = fresh.load().then(() => "loaded");
    expect(await Promise.race([loaded, stopped.catch(({ code }) => code)])).toBe("REQUEST_CANCELLED");
    await fresh.close();
  });

  it("[D5] refuses more calls than it can hold", async () => {
    const stop = new AbortController();
    const calls = Array.from({ length: 300 }, () => shared.embed(["word ".repeat(200)], "passage", stop.signal));
    const settled = Promise.allSettled(calls);
    stop.abort();
    const codes = (await settled).map((call) => (call.status === "rejected" ? call.reason.code : "done"));
    expect(codes.filter((code) => code === "CAPABILITY_UNAVAILABLE")).toHaveLength(300 - 256);
  });

  it("[D5] can be closed twice, before and after use, and rejects what waits", async () => {
    const unused = createLocalEmbedder();
    await unused.close();
    await unused.close();
    await expect(unused.embed(["x"], "query", never)).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    const used = createLocalEmbedder();
    await used.load();
    const waiting = used.embed(new Array<string>(50).fill("word ".repeat(300)), "passage", never);
    const refused = expect(waiting).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    await Promise.all([used.close(), used.close(), refused]);
  });
});

describe("the local embedder without its weights", () => {
  it("[D5] says that they are missing, damaged, or no model", async () => {
    const folder = await mkdtemp(join(tmpdir(), "rkat-weights-"));
    await writeFile(join(folder, "model.bin"), "no model");
    const sha256 = createHash("sha256").update("no model").digest("hex");
    const failureOf = (asset: { name: string; sha256: string }) =>
      createLocalEmbedder({ weights: { folder, ...asset } })
        .embed(["x"], "query", never)
        .then(
          () => undefined,
          ({ code, message }) => [code, message],
        );
    const answers = [
      await failureOf({ name: "absent.bin", sha256 }),
      await failureOf({ name: "model.bin", sha256: "00" }),
      await failureOf({ name: "model.bin", sha256 }),
    ];
    await rm(folder, { recursive: true });
    expect(answers).toEqual([
      ["CAPABILITY_UNAVAILABLE", expect.stringMatching(/^absent\.bin cannot be read: ENOENT/)],
      ["CAPABILITY_UNAVAILABLE", "model.bin is damaged: its sha256 is not 00"],
      ["CAPABILITY_UNAVAILABLE", "the local embedder cannot be used: 8 bytes are not the weights of gte-small"],
    ]);
  });
});

const canUnshare = spawnSync("unshare", ["-n", "true"]).status === 0;

describe("the local embedder in a process of its own", () => {
  const script = `
    import { createLocalEmbedder } from ${JSON.stringify(new URL("./local.ts", import.meta.url).href)};
    const vectors = await createLocalEmbedder().embed(["hello"], "query", new AbortController().signal);
    process.stdout.write(String(vectors[0].length));
  `;
  const args = [process.execPath, "--input-type=module", "-e", script];

  it.skipIf(!canUnshare)("[D5] needs no network", () => {
    expect(execFileSync("unshare", ["-n", ...args], { encoding: "utf8" })).toBe("384");
  });

  it("[D5] does not keep the process from ending", () => {
    expect(execFileSync("/usr/bin/env", args, { encoding: "utf8", timeout: 20_000 })).toBe("384");
  });
});
