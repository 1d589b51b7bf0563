import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../../../test/support/command-line.ts";
import { createProgram } from "./command-line.ts";
import { type CommandEntry, commandTree } from "./commands/completion.ts";
import type { Parts } from "./parts.ts";

const line = useCommandLine();
const { run } = line;
const env = { RKAT_MODEL: "offline" };
const ESCAPE = String.fromCharCode(27);

/** What only looks, and can be asked without anything being there but a session and an agent. */
const LOOKS = [
  "session list",
  "session show last",
  "session context last",
  "session events last",
  "compact list last",
  "compact run last --preview",
  "memory search heron",
  "memory history heron",
  "memory status",
  "agent list",
  "agent status ada",
  "agent context ada",
  "doctor",
  "doctor --verify",
  "models",
  "capabilities",
];

async function live(): Promise<void> {
  // What this is about is the same with every embedder, and this one is there at once.
  writeFileSync(join(line.cwd, "rkat.toml"), '[memory]\nembedder = "hashing"\n');
  expect(await run(["the heron stands in the pond"], { env })).toMatchObject({ code: 0 });
  expect(await run(["agent", "remember", "ada", "a heron"], { env })).toMatchObject({ code: 0 });
}

describe("[G5] manners", () => {
  it("goes on with a session by every spelling", async () => {
    await live();
    const [{ session_id: id }] = JSON.parse((await run(["session", "list", "--json"])).stdout).sessions;
    const spellings = [
      ["resume", id, "who stands in the pond?"],
      ["resume", id.slice(0, 8), "who", "stands", "in", "the", "pond?"],
      ["resume", "last", "who stands in the pond?"],
      ["continue", "who stands in the pond?"],
      ["c", "who stands in the pond?"],
      ["run", "--resume", "who stands in the pond?"],
      ["--resume=last", "who stands in the pond?"],
      ["--resume", id, "who stands in the pond?"],
    ];
    for (const words of spellings) {
      expect([words, await run(words, { env })]).toMatchObject([
        words,
        { code: 0, stdout: expect.stringContaining("heron") },
      ]);
    }
    const { sessions } = JSON.parse((await run(["sessions", "list", "--json"])).stdout);
    expect(sessions).toMatchObject([{ session_id: id, message_count: 2 * (1 + spellings.length) }]);
  });

  it("writes JSON and nothing else to stdout wherever something is listed or shown", async () => {
    await live();
    for (const look of LOOKS) {
      const { code, stdout } = await run([...look.split(" "), "--json"], { env });
      const values = look.startsWith("session events") ? stdout.trimEnd().split("\n") : [stdout];
      expect([look, code, values.map((value) => typeof JSON.parse(value))]).toEqual([
        look,
        0,
        values.map(() => "object"),
      ]);
    }
  });

  it("paints only on a terminal, never against NO_COLOR, and fits a terminal of any width", async () => {
    await live();
    for (const look of LOOKS) {
      const words = look.split(" ");
      let narrow = "";
      const stdout = { isTerminal: true, columns: 1, write: (text: string | Uint8Array) => (narrow += text) };
      const piped = await run(words, { env });
      const plain = await run(words, { env: { ...env, NO_COLOR: "1" }, isTerminal: true, stdout });
      expect([look, piped.code, plain.code]).toEqual([look, 0, 0]);
      expect([look, (piped.stdout + piped.stderr).includes(ESCAPE)]).toEqual([look, false]);
      expect([look, (narrow + plain.stderr).includes(ESCAPE)]).toEqual([look, false]);
    }
  });

  it("has a summary, a description and an example for every command", () => {
    const faults = everyCommand(tree()).flatMap(({ path, summary, description, extras }) => [
      ...(summary === "" ? [`${path.join(" ")} has no summary`] : []),
      ...(description === "" ? [`${path.join(" ")} has no description`] : []),
      ...(extras.examples.length === 0 ? [`${path.join(" ")} has no example`] : []),
    ]);
    expect(faults).toEqual([]);
  });

  it("declares a command that is named alone as it does among the others", () => {
    const needAll = ["completion", "help"];
    // A hidden command is in no tree.
    const named = tree().commands.flatMap(({ path, aliases }) => [...path.slice(-1), ...aliases]);
    for (const name of named.filter((one) => !needAll.includes(one))) {
      const alone = commandTree(program(name)).commands.filter(({ path }) => path.at(-1) !== "help");
      expect(alone.length).toBeGreaterThan(0);
      const paths = alone.map(({ path }) => path.join(" "));
      expect(alone).toEqual(tree().commands.filter(({ path }) => paths.includes(path.join(" "))));
    }
  });

  it("takes --json wherever it lists or shows", () => {
    const looking = /^(?:list|show|status|search|history|context|events|models|capabilities|doctor|demo)$/;
    const without = everyCommand(tree())
      .filter(({ path, commands }) => looking.test(path.at(-1) ?? "") && commands.length === 0)
      .filter(({ options }) => !options.some(({ long }) => long === "--json"));
    expect(without.map(({ path }) => path.join(" "))).toEqual([]);
  });
});

function program(only?: string): Command {
  const nowhere = { isTerminal: false, columns: undefined, write: () => {} };
  const stdin = { kind: "none", read: async function* () {}, terminal: () => expect.unreachable() } as const;
  const io = { args: [], env: {}, cwd: "/", home: "/", version: "", nodeVersion: "", stdin } as const;
  // No command is run, so none of its parts is asked for.
  const parts = {} as Parts;
  const { signal } = new AbortController();
  return createProgram({ ...io, stdout: nowhere, stderr: nowhere, interrupt: signal }, parts, {
    only: only === undefined ? undefined : [only],
  });
}

function tree(): CommandEntry {
  return commandTree(program());
}

function everyCommand(entry: CommandEntry): readonly CommandEntry[] {
  return entry.commands.flatMap((command) => [command, ...everyCommand(command)]);
}
