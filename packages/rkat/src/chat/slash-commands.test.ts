import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defaultConfig } from "@rkat/core/config/settings";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { beforeEach, describe, expect, it } from "vitest";
import { PARTS, useCommandLine } from "../../../../test/support/command-line.ts";
import {
  CONFIGURATION,
  FACTS,
  fact,
  NO_MODEL,
  OFFLINE,
  summarisedBy,
} from "../../../../test/support/compacting-command-line.ts";
import { typedTo } from "../../../../test/support/keyboard.ts";
import type { Opened } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { completeSlash } from "./slash-commands.ts";

const line = useCommandLine();
const { run } = line;
const env = OFFLINE;
beforeEach(() => writeFileSync(join(line.cwd, "rkat.toml"), CONFIGURATION));

describe("rkat chat", () => {
  const chat = (input: readonly string[], ...flags: string[]) =>
    run(["chat", "-t", "none", ...flags], { env, input: input.join("\n") });

  it("undoes nothing where what is named is no compaction", async () => {
    const { code, stderr } = await chat([...FACTS, "/compact", "/undo nonsense"]);
    expect(code).toBe(10);
    expect(stderr).toContain("nonsense");
    const { stdout } = await run(["compact", "list", "last", "--json"], { env });
    expect(JSON.parse(stdout).compactions.at(-1)).toMatchObject({ undone: false });
  });

  it("[C18] compacts, shows the receipt and undoes, from within", async () => {
    const before = await chat([
      "/undo",
      "/receipt",
      ...FACTS,
      "/undo",
      "/compact keep every ticket",
      "/receipt",
      "/undo",
      "/undo",
    ]);
    const { code, stdout, stderr } = before;
    expect(code).toBe(0);
    expect(stderr.match(/^There is no compaction .*$/gm)).toEqual([
      "There is no compaction to undo.",
      "There is no compaction yet; /compact makes one.",
      "There is no compaction to undo.",
      "There is no compaction to undo.",
    ]);
    expect(stdout).toMatch(
      /\nCompacted: 10 → 5 messages, .*\nNothing lost\. .*\nCompaction \S+\n[\s\S]*\n {3}instructions +keep every ticket\n/,
    );
    expect(stdout).toMatch(/\nUndid \S+\. The context is now 10 messages, about \d+ tokens\.\n$/);
    expect(stderr).toContain("/receipt shows what it did, /undo brings it back\n");
  });

  it("[C11] tells of a compaction that a turn makes, and every event of it when asked to", async () => {
    const long = FACTS.map((each) => each.repeat(5));
    const { stderr } = await chat(long);
    expect(stderr).toMatch(/\n\(compacted: 9 → 4 messages; \/receipt shows what it did, \/undo brings it back\)\n/);
    await chat(long.slice(0, 4));
    const turn = await run(["c", fact(5).repeat(5), "-v"], { env });
    expect(turn.stderr).toMatch(
      /\n· compacting 9 messages, about [\d,]+ tokens…\n· compacted: 9 → 4 messages, a summary of \d+ tokens\n/,
    );
    const events = await run(["session", "events", "last"], { env });
    expect(events.stdout).toMatch(
      / {2}compacting \d messages, about [\d,]+ tokens…\n.* {2}compacted: \d → \d messages, a summary of \d+ tokens\n/,
    );
  });

  it("[C10] a summary that cannot be had ends a chat from a pipe, and is told in one from a turn, which goes on", async () => {
    const own = summarisedBy(() => ({ text: "" }));
    const failed = "the compaction failed, and the context is as it was: LLM returned empty summary";
    const slash = await run(["chat", "-t", "none"], {
      env: NO_MODEL,
      own,
      input: [...FACTS, "/compact", "hello"].join("\n"),
    });
    expect(slash).toMatchObject({ code: 30, stderr: expect.stringContaining(`Error: ${failed}\n`) });
    const flags = ["-t", "none", "--compact-threshold", "320"];
    const turns = await run(["chat", ...flags], { env: NO_MODEL, own, input: FACTS.join("\n") });
    expect(turns).toMatchObject({ code: 0, stdout: "Yes.\n".repeat(FACTS.length) });
    expect(turns.stderr).toContain("! compaction failed: LLM returned empty summary\n");
  });

  it("shows what fills the window as a bar as wide as the terminal, with its numbers", async () => {
    const { stdout } = await chat([...FACTS, "/compact", "/context"]);
    const [size = "", bar = "", ...legend] = stdout.trimEnd().split("\n").slice(-6);
    expect(size).toMatch(/^5 messages, about \d+ of 128,000 tokens$/);
    expect(bar).toHaveLength(80);
    expect(bar).toMatch(/^▓+█+·+│·+$/);
    expect(legend).toEqual([
      expect.stringMatching(/^▓ summary +\d+$/),
      expect.stringMatching(/^█ turns +\d+ {2}2 turns$/),
      expect.stringMatching(/^· free +127,\d+ {2}of which the bar shows [\d,]+$/),
      expect.stringMatching(/^│ compaction starts at 1,500, in about [\d,]+$/),
    ]);
  });

  it("[C17] takes a threshold of its own for a new session only", async () => {
    const started = await run(["run", "hello", "-t", "none", "--compact-threshold", "2_000"], { env });
    expect(started).toMatchObject({ code: 0 });
    expect(JSON.parse((await run(["session", "context", "last", "--json"], { env })).stdout)).toMatchObject({
      auto_compact_threshold: 2_000,
    });
    for (const words of [
      ["resume", "last", "hello"],
      ["c", "hello"],
      ["chat", "--continue"],
    ]) {
      expect(await run([...words, "--compact-threshold", "900"], { env, input: "" })).toEqual({
        code: 2,
        stdout: "",
        stderr:
          "Error: --compact-threshold cannot change on a session that has run: it is set when the session is created\n",
      });
    }
    expect(await run(["run", "hello", "-t", "none", "--compact-threshold", "200"], { env })).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^Error: auto_compact_threshold: 200 can never be met, because .* = 300 tokens/),
    });
  });
});

describe("what can be typed in a chat", () => {
  const chat = (...input: readonly string[]) => run(["chat", "-t", "none"], { env, input: input.join("\n") });

  it("[G5] a command that is not there is refused with the nearest, or with what begins so", async () => {
    for (const [typed, meant] of [
      ["/modle", "/model"],
      ["/hist", "/history"],
    ]) {
      expect(await chat(`${typed}`)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining(`Error: there is no ${typed}; did you mean ${meant}? /help lists them\n`),
      });
    }
  });

  it("[G5] /help has every command in its group, as wide as the terminal, and the keys where there are any", async () => {
    const piped = await chat("/help");
    expect(piped.stderr).toMatch(/\nSessions\n {2}\/new +start a new session\n/);
    expect(piped.stderr).toMatch(/\n {2}@FILE +attach a file/);
    expect(piped.stderr).not.toMatch(/^Keys$|!COMMAND/m);
    expect(
      piped.stderr
        .split("\n")
        .slice(1)
        .every((row) => row.length <= 80),
    ).toBe(true);
    const { ended, type, saw, screen } = typedTo(run, ["chat", "-t", "none"], { env });
    await saw("> ");
    await type("/help", "Ctrl-D ");
    await type("/quit", "\n");
    await ended;
    expect(screen()).toMatch(/\n {2}!COMMAND +run a shell command/);
    expect(screen()).toMatch(/\nKeys\n {2}Tab +complete\n/);
  });

  it("[G5] /context names the skills that are loaded", async () => {
    // A window that a skill fits in.
    writeFileSync(join(line.cwd, "rkat.toml"), "");
    mkdirSync(join(line.cwd, ".rkat/skills/heron"), { recursive: true });
    const skill = "---\nname: heron\ndescription: About herons.\n---\nHerons stand.\n";
    writeFileSync(join(line.cwd, ".rkat/skills/heron/SKILL.md"), skill);
    const input = "/skill heron\nhello\n/context";
    const { stdout } = await run(["--trust", "chat"], { env, input });
    expect(stdout).toMatch(/\nskills: heron\n$/);
  });

  it("[G5] Tab is offered commands with their meanings, and what each may be given", async () => {
    const model = createScriptedModel(() => ({ text: "Yes." }));
    const runtime = createRuntime({ store: createInMemoryStore(), model });
    await runtime.dispatch("createSession", { prompt: "Fact\u001b[2J one." });
    await runtime.dispatch("remember", { agent: "ada", content: "The heron stands." });
    const opened = { runtime, config: defaultConfig(), isKept: true } as Opened;
    const place = { opened, invocation: { parts: PARTS } as Invocation };
    const texts = async (typed: string) => (await completeSlash(typed, place)).map(({ text }) => text);
    expect(await completeSlash("/se", place)).toEqual([{ text: "/sessions", note: expect.stringMatching(/^list/) }]);
    expect(await texts("/")).toHaveLength(19);
    expect(await texts("/model claude-opus-5")).toEqual(["claude-opus-5-5", "claude-opus-5"]);
    expect(await completeSlash("/resume ", place)).toEqual([
      { text: expect.stringMatching(/^\S{13}$/), note: "Fact[2J one." },
    ]);
    expect(await completeSlash("/agents a", place)).toEqual([{ text: "ada", note: "1 memory" }]);
    expect(await texts("/copy c")).toEqual(["code"]);
    for (const nothing of ["", "hello", "/nothing x", "/new x", "/skill none"])
      expect(await texts(nothing)).toEqual([]);
    await runtime.close();
    expect(await texts("/resume ")).toEqual([]);
  });
});
