import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import type { Io } from "rkat/io";
import { describe, expect, it } from "vitest";
import { NO_INPUT, useCommandLine } from "./support/command-line.ts";

const line = useCommandLine();
const { run } = line;

async function ok(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await run(args);
  expect({ args, code, stderr: code === 0 ? "" : stderr }).toEqual({ args, code: 0, stderr: "" });
  return stdout;
}

/** Somebody at a terminal who writes this to the first question. */
function answering(answer: string): { isTerminal: true; env: Io["env"]; stdin: Io["stdin"] } {
  const input = new PassThrough();
  input.end(`${answer}\n`);
  // A line editor needs no more of a terminal than these streams have.
  const terminal = { input, output: new PassThrough() } as unknown as ReturnType<Io["stdin"]["terminal"]>;
  const stdin = { ...NO_INPUT, kind: "terminal", terminal: () => terminal } as const;
  return { isTerminal: true, env: { NO_COLOR: "1" }, stdin };
}

describe("rkat memory forget", () => {
  it("[D9] names who said what would go, and what only a label says", async () => {
    await ok("run", "Call Lovelace back.", "-m", "offline", "--label", "ticket=byron-17");
    await ok("agent", "remember", "eve", "Lovelace is shy");
    expect(await ok("memory", "forget", "--text", "lovelace", "--dry-run")).toMatch(
      /seq 2 +you .*\n.* seq 4 +model .*\nagent eve +seq 1 +memory .*\n3 messages would go\n$/,
    );
    expect(await ok("memory", "forget", "--text", "byron-17", "--dry-run")).toMatch(
      /^\S+ {2}no message of it, but a label, a title or another part\n0 messages would go, and parts of 1 log\n$/,
    );
  });

  it("[D9] says how much it looked through where nothing says it, and asks nothing", async () => {
    expect(await ok("memory", "forget", "--text", "Lovelace", "--dry-run")).toMatch(
      /^No matches in 0 sessions and 0 agents\.\n$/,
    );
    await ok("agent", "remember", "eve", "It rained");
    const { code, stdout, stderr } = await run(["memory", "forget", "--text", "Lovelace"]);
    expect([code, stdout, stderr]).toEqual([
      0,
      expect.stringMatching(/^forgotten +0 messages in 0 logs$/m),
      "No matches in 0 sessions and 1 agent.\n",
    ]);
  });

  it("[D9] forgets of what a search finds only what a person chooses", async () => {
    await ok("run", "The heron nests in the reed.", "-m", "offline");
    const asked = ["memory", "forget", "--query", "where the heron nests"];
    for (const flags of [["--yes"], []]) {
      const { code, stderr } = await run([...asked, ...flags]);
      expect([code, stderr]).toEqual([2, expect.stringMatching(/--query: .* you must choose; look with --dry-run/)]);
    }
    for (const answer of ["3", "1 x"]) {
      const { code, stderr } = await run(asked, answering(answer));
      expect({ answer, code, stderr }).toEqual({
        answer,
        code: 14,
        stderr: expect.stringContaining("nothing was forgotten"),
      });
    }
    const { stderr, stdout } = await run(asked, answering("1"));
    expect(stderr).toMatch(/^1 +\S+ +seq \d/);
    expect(stdout).toMatch(/^forgotten +1 message in 1 log$/m);
  });

  it("[D9] shows one receipt in words, and hands it on alone", async () => {
    for (const name of ["Lovelace", "Babbage"]) {
      await ok("run", `Call ${name} back.`, "-m", "offline");
      await ok("memory", "forget", "--text", name, "--yes");
    }
    const { forgettings } = JSON.parse(await ok("memory", "forgettings", "--json"));
    const id: string = JSON.parse(forgettings[1].receipt).forgetting_id;
    expect(await ok("memory", "forgettings")).toMatch(/^RECEIPT .*\n(?:\S+ +\S+Z +text +2 +nothing +right\n){2}$/);
    expect(await ok("memory", "forgettings", id)).toMatch(
      /^matches +0, nothing of it is left in this realm\nsignature +right\n$/m,
    );
    expect(JSON.parse(await ok("memory", "forgettings", id, "--json"))).toEqual(forgettings[1]);
    for (const wrong of ["ffff", "", "0"]) expect((await run(["memory", "forgettings", wrong])).code).toBe(2);
  });
});

describe("rkat memory export --subject", () => {
  it("[K2] hands out by several names whatever forgetting them would take, also what a file says or blanks part", async () => {
    const picture = Buffer.from(
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==",
      "base64",
    );
    writeFileSync(join(line.cwd, "tile.png"), Buffer.concat([picture, Buffer.from("by Ada Lovelace")]));
    await ok("run", "What is this?", "--file", "tile.png", "-m", "offline");
    await ok("run", "ADA   LOVELACE called from 0170 12345.", "-m", "offline");
    await ok("agent", "remember", "eve", "0170 12345 is hers");
    await ok("memory", "export", "--subject", "Ada Lovelace", "--subject", "0170 12345", "-o", "ada");
    const index = readFileSync(join(line.cwd, "ada", "index.md"), "utf8");
    expect(index).toMatch(
      /every text that contains "Ada Lovelace" or "0170 12345"\. Found: 4 texts in 3 places of 2 sessions and 1 agent\./,
    );
    const mentions = readFileSync(join(line.cwd, "ada", "mentions.jsonl"), "utf8");
    expect(mentions).toContain(picture.toString("base64").slice(0, 40));
    expect(mentions.match(/ADA {3}LOVELACE/g)?.length).toBe(2);
  });
});
