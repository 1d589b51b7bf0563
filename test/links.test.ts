import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { useCommandLine } from "./support/command-line.ts";

const line = useCommandLine();
const project = () => join(line.cwd, "project");
const elsewhere = () => join(line.cwd, "elsewhere");
const run = (...args: string[]) =>
  line.run(args, { cwd: project(), home: join(line.cwd, "home"), env: { NO_COLOR: "1" } });
const stateFolder = async (): Promise<string> => {
  const { stdout } = await run("config", "get", "--json", "--with-generation");
  return JSON.parse(stdout).resolved_paths.root;
};

beforeEach(() => {
  for (const folder of [project(), elsewhere(), join(line.cwd, "home")]) mkdirSync(folder);
});

describe("links in a state folder", () => {
  it("[H2] of an agent are not written through, and nothing behind them becomes a memory", async () => {
    const state = await stateFolder();
    mkdirSync(join(state, ".rkat/agents"), { recursive: true });
    mkdirSync(join(elsewhere(), "memories"));
    writeFileSync(join(elsewhere(), "memories/secret.md"), "The stranger's text.\n");
    symlinkSync(elsewhere(), join(state, ".rkat/agents/ada"));
    const refused = await run("agent", "remember", "ada", "Mine.");
    expect(refused.stderr).toContain(`${join(state, ".rkat/agents/ada")} is a link`);
    expect(readdirSync(join(elsewhere(), "memories"))).toEqual(["secret.md"]);
    const { stdout } = await run("agent", "context", "ada");
    expect(stdout).not.toContain("stranger");
  });

  it("[H2] in place of the folders of sessions or of one session's files are not written through", async () => {
    const state = await stateFolder();
    mkdirSync(join(state, ".rkat"), { recursive: true });
    symlinkSync(elsewhere(), join(state, ".rkat/sessions"));
    const { code, stderr } = await run("run", "hello", "-m", "offline");
    expect({ code, behind: readdirSync(elsewhere()) }).toEqual({ code: 0, behind: [] });
    expect(stderr).toContain(`${join(state, ".rkat/sessions")} is a link`);
  });

  it("[H2] in place of what is kept are refused in a sentence", async () => {
    const state = await stateFolder();
    mkdirSync(state, { recursive: true });
    for (const name of ["log", "blobs", "memory", "agents", "index.db", "config.toml.new"]) {
      const link = join(state, name);
      symlinkSync(join(elsewhere(), name), link);
      const refused = await run("run", "hello", "-m", "offline");
      expect(refused.code).toBe(31);
      expect(refused.stderr).toBe(`Error: ${link} is a link, and nothing is kept behind one; remove it\n`);
      expect(readdirSync(elsewhere())).toEqual([]);
      rmSync(link);
    }
    expect((await run("run", "hello", "-m", "offline")).code).toBe(0);
  });
});

describe("a project's folder that is a link", () => {
  it("[I5] is used once somebody trusted where it leads", async () => {
    symlinkSync(elsewhere(), join(project(), ".rkat"));
    const refused = await run("run", "hello", "-m", "offline");
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain(`${join(project(), ".rkat")} leads to ${elsewhere()}`);
    expect(readdirSync(elsewhere())).toEqual([]);
    expect((await run("trust")).stdout).toContain(`keeps sessions in "${elsewhere()}"`);
    expect((await run("run", "hello", "-m", "offline")).code).toBe(0);
    expect(existsSync(join(elsewhere(), "realms"))).toBe(true);
  });

  it("[H2] is not what rkat init writes through", async () => {
    const target = join(elsewhere(), "profile");
    writeFileSync(target, "# The user's own.\n");
    mkdirSync(join(project(), ".rkat"));
    symlinkSync(target, join(project(), ".rkat/config.toml"));
    const refused = await run("init", "--force");
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining(".rkat/config.toml is a link") });
    expect(readFileSync(target, "utf8")).toBe("# The user's own.\n");
  });
});
