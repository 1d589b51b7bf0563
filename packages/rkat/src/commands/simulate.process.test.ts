import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Simulation } from "@rkat/core/contract/wire/simulation";
import { beforeEach, describe, expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";

const line = useCommandLine();
const SECOND = ["--policy", "a.toml"];

/** A session of the offline model, saved as a log. */
async function saveLog(): Promise<void> {
  await line.run(["run", "The port of staging is 7431. Remember it.", "-m", "offline"]);
  const { code } = await line.run(["compact", "simulate", "last", "--save", "log.jsonl"]);
  expect(code).toBe(0);
}

describe("rkat compact simulate", () => {
  beforeEach(() => {
    writeFileSync(join(line.cwd, "a.toml"), 'name = "a"\nrecent_turn_budget = 1\n');
  });

  it("[J4] replays a session and a file of it alike, as a table and as JSON", async () => {
    await saveLog();
    const [session, file] = await Promise.all(
      ["last", "log.jsonl"].map(async (word) => {
        const { code, stdout } = await line.run(["compact", "simulate", word, ...SECOND, "--json"]);
        expect(code).toBe(0);
        return JSON.parse(stdout) as Simulation;
      }),
    );
    expect(session?.sums).toEqual(file?.sums);
    expect(file).toMatchObject({
      summaries: "offline",
      policies: [{ name: "a" }],
      sums: [{ calls: 1, as_recorded: 1 }],
    });
    const { stdout } = await line.run(["compact", "simulate", "log.jsonl", ...SECOND]);
    expect(stdout).toContain("log  offline, 1 turn, 1 call\n");
    expect(stdout).not.toContain("\u001b");
    expect((await line.run(["compact", "simulate", "log.jsonl"], { isTerminal: true })).stdout).toContain("\u001b");
    expect(statSync(join(line.cwd, "log.jsonl")).mode & 0o777).toBe(0o600);
  });

  it.each([
    [["nowhere.jsonl"], "nowhere.jsonl: there is no such file for a log"],
    [["a.toml"], "a.toml: line 1 is no entry of a log; give a session's log, one entry a line"],
    [["empty"], "empty: it has no .jsonl files; name a log"],
    [["log.jsonl", "--policy", "none.toml"], "none.toml: there is no such file for --policy"],
    [
      ["log.jsonl", "--policy", "bad.toml"],
      "bad.toml: recent_turns is not a known key; did you mean recent_turn_budget?",
    ],
    [["log.jsonl", ...SECOND, ...SECOND], 'a.toml: another policy is named a; write name = "…"'],
    [["log.jsonl", "--policy", "tight.toml"], "tight: auto_compact_threshold: 10 can never be met"],
    [["log.jsonl", "--policy", "code.toml"], "code.toml: module ./none.mjs cannot be used: "],
    [["log.jsonl", "--force"], "--force is for --html; leave it out"],
    [["log.jsonl", "--html", "a.toml"], "a.toml is there already; --force overwrites it"],
    [["bytes.jsonl"], "bytes.jsonl is not UTF-8 text"],
    [["cut.jsonl"], "cut.jsonl: line "],
  ])("[J4] refuses %j in a sentence", async (words, sentence) => {
    await saveLog();
    const at = (name: string): string => join(line.cwd, name);
    mkdirSync(at("empty"));
    writeFileSync(at("bad.toml"), "recent_turns = 3\n");
    writeFileSync(at("tight.toml"), "auto_compact_threshold = 10\n");
    writeFileSync(at("code.toml"), 'module = "./none.mjs"\n');
    writeFileSync(at("bytes.jsonl"), Buffer.from([0xff, 0xfe, 0x00]));
    writeFileSync(at("cut.jsonl"), readFileSync(at("log.jsonl"), "utf8").slice(0, -30));
    const { code, stdout, stderr } = await line.run(["compact", "simulate", ...words]);
    expect(stderr).toContain(sentence);
    expect(stderr.trim().split("\n")).toHaveLength(1);
    expect([code, stdout]).toEqual([2, ""]);
  });

  it("[J4] takes what of a policy is code from a module", async () => {
    await saveLog();
    writeFileSync(join(line.cwd, "code.toml"), 'name = "own"\nmodule = "./own.mjs"\n');
    writeFileSync(join(line.cwd, "own.mjs"), "export const compaction = { curator: async () => 'all is well' };\n");
    const { code, stdout } = await line.run(["compact", "simulate", "log.jsonl", "--policy", "code.toml", "--json"]);
    expect([code, JSON.parse(stdout).policies]).toEqual([0, [{ name: "own", settings: {} }]]);
  });

  it("[J4] names a session that is not there as everywhere, and ends when it is interrupted", async () => {
    await saveLog();
    expect((await line.run(["compact", "simulate", "0123456789"])).code).toBe(10);
    const interrupt = AbortSignal.abort(130);
    expect((await line.run(["compact", "simulate", "log.jsonl"], { interrupt })).code).toBe(130);
  });
});
