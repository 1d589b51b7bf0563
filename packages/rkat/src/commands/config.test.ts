import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";

const line = useCommandLine();
const realmFile = () => {
  const realms = join(line.cwd, ".rkat/realms");
  const [realm = ""] = readdirSync(realms).filter((name) => name.startsWith("ws-"));
  return join(realms, realm, "config.toml");
};

describe("rkat config", () => {
  it("[G2] get shows what holds, as TOML that can be set, and makes no folder", async () => {
    const { code, stdout } = await line.run(["config", "get"]);
    expect(code).toBe(0);
    expect(stdout).toContain("[agent]\nmax_tokens_per_turn = 16384\n");
    expect(readdirSync(line.cwd)).toEqual([]);
    expect((await line.run(["config", "set", "-"], { input: stdout })).code).toBe(0);
    expect((await line.run(["config", "get"])).stdout).toBe(stdout);
    const counted = await line.run(["config", "get", "--with-generation"]);
    expect(counted.stdout).toBe(`# generation 1\n${stdout}`);
    const json = await line.run(["config", "get", "--json", "--with-generation"]);
    expect(JSON.parse(json.stdout)).toMatchObject({ generation: 1, resolved_paths: { config_path: realmFile() } });
    const bare = await line.run(["config", "get", "--format", "json"]);
    expect(JSON.parse(bare.stdout)).toMatchObject({ agent: { max_turns: 100 } });
  });

  it("[G2] patch and set change what the next command finds", async () => {
    const patched = await line.run(["config", "patch", "--json", '{"agent":{"model":"offline","max_turns":7}}']);
    expect(patched).toEqual({ code: 0, stdout: `Kept in ${realmFile()}, generation 1.\n`, stderr: "" });
    expect(readFileSync(realmFile(), "utf8")).toBe('[agent]\nmodel = "offline"\nmax_turns = 7\n');
    expect((await line.run(["run", "What is 2 + 3?"])).stdout).toBe("2 + 3 = 5\n");
    writeFileSync(join(line.cwd, "patch.json"), '{"agent":{"model":null},"rest":{"port":9000}}');
    const waits = await line.run(["config", "patch", "patch.json", "--expected-generation", "1"]);
    expect(waits.stdout).toContain("A server that runs follows rest.port after its next start.\n");
    expect((await line.run(["run", "hello"])).stderr).toContain("no model is configured");
    await line.run(["config", "set", "--toml", "agent.max_turns = 3"]);
    expect(readFileSync(realmFile(), "utf8")).toBe("[agent]\nmax_turns = 3\n");
    expect((await line.run(["doctor"])).stdout).toContain(realmFile());
  });

  it("[H1] says in one sentence what is wrong, and keeps nothing", async () => {
    const refused: [readonly string[], string][] = [
      [["set"], "write what to keep once: a FILE, - for stdin, --json or --toml"],
      [["set", "a.toml", "--json", "{}"], "write what to keep once"],
      [["set", "a.toml"], "there is no file a.toml"],
      [["set", "."], ". cannot be read: EISDIR"],
      [["patch", '{"agent":{}}'], "use --json"],
      [["set", "--toml", "a = ["], "--toml is not valid TOML at line 1, column 5"],
      [["patch", "--json", "{"], "--json is not valid JSON"],
      [["patch", "--json", "[]"], "--json is not a configuration: it must be an object"],
      [
        ["patch", "--json", '{"agent":{"modle":1}}'],
        "patch: agent.modle is not a known key; did you mean agent.model?",
      ],
      [["patch", "--json", '{"compaction":{"auto_compact_threshold":5}}'], "can never be met"],
      [["patch", "--json", "{}", "--expected-generation", "3"], "Generation conflict: expected 3, current 0"],
    ];
    for (const [words, sentence] of refused) {
      const { code, stdout, stderr } = await line.run(["config", ...words]);
      expect({ code, stdout }, words.join(" ")).toEqual({ code: 2, stdout: "" });
      expect(stderr).toContain(sentence);
      expect(stderr.trim().split("\n")).toHaveLength(1);
    }
    const unkept = await line.run(["config", "set", "--toml", ""], { env: { RKAT_FEATURES: "none" } });
    expect(unkept).toMatchObject({ code: 40, stderr: expect.stringContaining("persistence is disabled") });
    expect((await line.run(["config", "get", "--with-generation"])).stdout).toContain("# generation 0\n");
  });

  it("[H1] a realm's file that is no TOML is named by every command", async () => {
    await line.run(["config", "set", "--toml", ""]);
    writeFileSync(realmFile(), "[agent");
    for (const words of [
      ["config", "get"],
      ["run", "hi", "-m", "offline"],
      ["session", "list"],
    ]) {
      const { code, stderr } = await line.run(words);
      expect(code).toBe(2);
      expect(stderr).toContain(`${realmFile()} is not valid TOML`);
    }
  });

  it("tells a session of an event from outside", async () => {
    await line.run(["run", "hello", "-m", "offline"]);
    const reported = await line.run(["session", "event", "last", "deploy", '{"to":"web-7"}']);
    expect(reported.stdout).toMatch(/^Sent to [0-9a-f-]+; the model sees it at its next call\.\n$/);
    expect((await line.run(["session", "show", "last", "--history"])).stdout).toContain('{"to":"web-7"}');
    const bad = await line.run(["session", "event", "last", "deploy", "{"]);
    expect(bad).toMatchObject({ code: 2, stderr: expect.stringContaining("valid JSON") });
  });
});
