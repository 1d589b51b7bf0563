import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { createMemoryStoreInMemory } from "@rkat/core/stores/recall-in-memory";
import { openRuntime } from "@rkat/node/open-runtime";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";
import type { Parts } from "../parts.ts";

const line = useCommandLine();
const { run } = line;
const env = { RKAT_MODEL: "offline", FORCE_COLOR: "0" };
const SESSIONS = 12;

/** A realm of sessions that no memory has taken in. */
async function makeSessions(): Promise<void> {
  // What this is about is the same with every embedder, and this one is there at once.
  writeFileSync(join(line.cwd, "rkat.toml"), '[memory]\nembedder = "hashing"\n');
  const open: Parts["openRuntime"] = async (options) => {
    const runtime = await openRuntime(options);
    for (let made = 1; made < SESSIONS; made += 1) await runtime.dispatch("createSession", { prompt: `heron ${made}` });
    return runtime;
  };
  const kept = { ...env, RKAT_FEATURES: "session-store" };
  expect(await run(["run", "heron"], { env: kept, own: { openRuntime: open } })).toMatchObject({ code: 0 });
}

/** A memory in which every session takes a while. */
const slow: Partial<Parts> = {
  openRuntime: (options) => {
    const store = createMemoryStoreInMemory();
    const add: typeof store.add = async (batch) => {
      await setTimeout(120);
      await store.add(batch);
    };
    return openRuntime({ ...options, memory: { store: { ...store, add } } });
  },
};

describe("rkat memory", () => {
  it("[G5] [D6] counts on a terminal the sessions that a search indexes first, and clears the line", async () => {
    await makeSessions();
    for (const words of [["history"], ["search"], ["history", "--all-projects"], ["forget", "--dry-run", "--query"]]) {
      const args = ["memory", ...words, "heron"];
      const { code, stderr } = await run(args, { env, own: slow, isTerminal: true });
      const parts = stderr.split("\r\u001b[K");
      const said = parts.slice(0, -1).filter((part) => part !== "");
      expect({ args, code, last: parts.at(-1) }).toEqual({ args, code: 0, last: expect.not.stringContaining("…") });
      const strange = said.filter(
        (part) => !/^(?:searching|looking for it|indexing \d+ of \d+ sessions)…(?: \d+ s)?$/.test(part),
      );
      expect({ args, strange, counts: said.some((part) => part.startsWith("indexing ")) }).toEqual({
        args,
        strange: [],
        counts: true,
      });
    }
    const json = await run(["memory", "history", "heron", "--json"], { env, own: slow, isTerminal: true });
    const pipe = await run(["memory", "history", "heron"], { env, own: slow });
    expect([json, pipe].map(({ code, stderr }) => ({ code, hasLine: /\r|…/.test(stderr) }))).toEqual([
      { code: 0, hasLine: false },
      { code: 0, hasLine: false },
    ]);
  });

  it("[G5] takes a model where it calls one, and elsewhere says that it calls none", async () => {
    for (const words of [
      ["memory", "history", "heron", "--model", "offline"],
      ["memory", "status", "-m", "offline"],
      ["-r", "pond", "memory", "index", "--model=offline"],
    ])
      expect(await run(words, { env })).toMatchObject({
        code: 2,
        stderr: "Error: this command calls no model, only the embedder that [memory] names; leave out --model\n",
      });
    mkdirSync(join(line.cwd, "notes"));
    writeFileSync(join(line.cwd, "notes", "pond.md"), "A heron stands in the pond.\n");
    const models: unknown[] = [];
    const own: Partial<Parts> = {
      openRuntime: (options) => {
        models.push(options.config?.agent.model);
        return openRuntime(options);
      },
    };
    const imported = await run(["memory", "import", "notes", "--agent", "ada", "-m", "gpt-heron"], { env, own });
    expect([imported.code, models]).toEqual([0, ["gpt-heron"]]);
  });
});
