import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { openRuntime } from "@rkat/node/open-runtime";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../support/command-line.ts";

const line = useCommandLine();
const home = () => join(line.cwd, "home");
const project = () => join(line.cwd, "project");
const write = (path: string, text: string): void => {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
};
const run = (...args: string[]) => {
  mkdirSync(project(), { recursive: true });
  return line.run(args, { cwd: project(), home: home(), env: { NO_COLOR: "1" } });
};

describe("sub-agents on the command line", () => {
  it("[O4] are listed and shown as far as they are trusted, and what is broken is told", async () => {
    write(join(project(), ".rkat/sub-agents/reviewer.md"), "---\ndescription: Reads a change.\n---\nRead it twice.\n");
    write(join(project(), ".rkat/sub-agents/broken.md"), "---\ndescription: x\n---\n");
    write(join(home(), ".rkat/sub-agents/clerk.md"), "---\ndescription: Files.\nmax_tokens: 9000\n---\nFile it.\n");
    const before = await run("sub-agent", "list", "--json");
    expect(JSON.parse(before.stdout)).toEqual({
      enabled: false,
      max_depth: 2,
      max_concurrent: 4,
      max_tasks: 16,
      result_bytes_max: 16_384,
      sub_agents: [
        { name: "general", description: expect.any(String), prompt: expect.any(String) },
        { name: "clerk", description: "Files.", prompt: "File it.", max_tokens: 9_000, from: "user" },
      ],
    });
    expect(before.stderr).toContain("! left out until you trust this folder: sub-agent reviewer of");
    expect(before.stderr).toMatch(/! a sub-agent is left out: .*broken\.md: write its prompt below the front matter\n/);
    const status = await run("trust", "--status");
    expect(status).toMatchObject({
      code: 1,
      stdout: expect.stringContaining(
        'offers the sub-agent reviewer for "Reads a change.", by a prompt of 14 characters',
      ),
    });
    expect((await run("trust")).code).toBe(0);
    expect((await run("sub-agent", "list")).stdout).toBe(
      [
        "NAME      MODEL  WHAT FOR",
        "general          does any task with the tools you have, and reports",
        "clerk            Files.",
        "reviewer         Reads a change.",
        "Sessions have the tool agent only where they ask for it: sub_agents.enabled is false.",
        "",
      ].join("\n"),
    );
    expect((await run("sub-agent", "show", "clerk")).stdout).toBe(
      "name         clerk\ndescription  Files.\nmax_tokens   9,000\n\nFile it.\n",
    );
    const missing = await run("sub-agent", "show", "nobody");
    expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining("there is no sub-agent nobody") });
    const { findings } = JSON.parse((await run("doctor", "--json")).stdout);
    expect(findings.filter(({ check }: { check: string }) => check === "sub-agents")).toEqual([
      { check: "sub-agents", status: "ok", finding: "clerk, reviewer" },
      { check: "sub-agents", status: "missing", finding: expect.stringContaining("broken.md: write its prompt below") },
    ]);
    expect((await run("trust", "--revoke")).code).toBe(1);
    expect((await run("sub-agent", "show", "reviewer")).code).toBe(2);
  });

  it("[O4] are set, read and taken away by the configuration's own operations", async () => {
    const agents = { clerk: { description: "Files.", prompt: "File it.", max_duration: "90s", tools: ["shell"] } };
    const runtime = await openRuntime({ stateFolder: join(line.cwd, "state"), env: {}, projectRoot: line.cwd });
    const patched = await runtime.patchConfig({ sub_agents: { enabled: true, max_depth: 1, ...agents } });
    expect(patched.config.sub_agents).toMatchObject({ enabled: true, max_depth: 1, max_tasks: 16, ...agents });
    const read = await runtime.readConfig();
    await runtime.setConfig(read.config);
    expect((await runtime.readConfig()).config).toEqual(read.config);
    await runtime.patchConfig({ sub_agents: { clerk: null } });
    expect((await runtime.readConfig()).config.sub_agents).not.toHaveProperty("clerk");
    await expect(runtime.patchConfig({ sub_agents: { Big: agents.clerk } })).rejects.toThrow("sub_agents.Big");
    // The former spelling of the key.
    await runtime.patchConfig({ agents });
    expect((await runtime.readConfig()).config.sub_agents).toMatchObject(agents);
    await runtime.patchConfig({ agents: { clerk: null } });
    expect((await runtime.readConfig()).config.sub_agents).not.toHaveProperty("clerk");
    await expect(runtime.patchConfig({ agents, sub_agents: agents })).rejects.toThrow(
      "patch: [agents.clerk] and [sub_agents.clerk] are the same sub-agent; remove [agents.clerk]",
    );
    await runtime.close();
  });
});

describe("the sessions of sub-agents", () => {
  it("[O4] are drawn below the one that handed them their tasks, and are not meant by last", async () => {
    const made = async (prompt: string, ...labels: string[]): Promise<string> => {
      const flags = labels.flatMap((label) => ["--label", label]);
      const { stdout } = await run("run", prompt, "-m", "offline", "--json", ...flags);
      return JSON.parse(stdout).session_id;
    };
    const child = (prompt: string, parent: string, agent: string) =>
      made(prompt, `parent=${parent}`, "parent_call=c1", `agent=${agent}`);
    const elder = await made("What is 1 + 1?");
    const root = await made("What is 2 + 2?");
    const first = await child("What is 3 + 3?", root, "reviewer");
    const second = await child("What is 4 + 4?", root, "clerk");
    const below = await child("What is 5 + 5?", first, "clerk");
    await made("A namesake's", `parent=${root}`);
    const { stdout } = await run("session", "tree", root);
    expect(stdout.split("\n").map((row) => row.replace(/ {2,}/g, "  ").replace(/[\d,]+ tokens/, "N tokens"))).toEqual([
      `session  ${root.slice(0, 13)}  idle  N tokens  $0.00  What is 2 + 2?`,
      `├─ reviewer  ${first.slice(0, 13)}  idle  N tokens  $0.00  What is 3 + 3?`,
      `│  └─ clerk  ${below.slice(0, 13)}  idle  N tokens  $0.00  What is 5 + 5?`,
      `└─ clerk  ${second.slice(0, 13)}  idle  N tokens  $0.00  What is 4 + 4?`,
      "4 sessions, N tokens, $0.00",
      "",
    ]);
    const reported = JSON.parse((await run("session", "tree", first, "--json")).stdout);
    expect(reported).toMatchObject({ parent: root, tree: { session_id: first, children: [{ session_id: below }] } });
    expect(reported.total_tokens).toBe(reported.tree.total_tokens + reported.tree.children[0].total_tokens);
    const list = (await run("session", "list")).stdout;
    expect(list).toMatch(/↳ reviewer: What is 3/);
    const { session_id } = JSON.parse((await run("session", "show", "~2", "--json")).stdout);
    expect(session_id).toBe(elder);
    expect(JSON.parse((await run("session", "show", "~1", "--json")).stdout).session_id).toBe(root);
  });
});
