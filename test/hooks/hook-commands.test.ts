import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { NO_INPUT, useCommandLine } from "../support/command-line.ts";

const line = useCommandLine();
const project = () => join(line.cwd, "project");
const home = () => join(line.cwd, "home");
const run = (args: readonly string[]) =>
  line.run(args, { cwd: project(), home: home(), stdin: NO_INPUT, env: { PATH: process.env.PATH } });

const hook = (id: string, script: string, more = "") =>
  `[[hooks.entries]]\nid = "${id}"\npoint = "run_started"\ncapability = "guardrail"\ntimeout_ms = 120000\n${more}` +
  `[hooks.entries.runtime]\ntype = "command"\ncommand = "sh"\nargs = ["-c", "${script}"]\n`;

beforeEach(() => {
  for (const folder of [project(), join(home(), ".rkat")]) mkdirSync(folder, { recursive: true });
});

describe("hooks of the configuration", () => {
  it("[N3] of a project are called once it is trusted, which says what each starts", async () => {
    writeFileSync(join(project(), "rkat.toml"), hook("door", "echo closed >&2; exit 2"));
    const before = await run(["run", "hello", "-m", "offline"]);
    expect(before).toMatchObject({ code: 0 });
    expect(before.stderr).toContain("hook door of ");
    const listed = await run(["hooks", "list"]);
    expect(listed.stdout).toContain('not called: it starts "sh" "-c" "echo closed >&2; exit 2" at run_started');
    await run(["trust"]);
    const after = await run(["run", "hello", "-m", "offline"]);
    expect(after).toMatchObject({ code: 22 });
    expect(after.stderr).toContain("denied by hook door: closed");
  });

  it("[N1] are listed by their points, and rkat hooks alone says what it can do", async () => {
    const late = hook("late", "exit 0").replace("run_started", "turn_boundary");
    writeFileSync(join(project(), "rkat.toml"), `${late}${hook("door", "exit 0")}`);
    const { stdout } = await line.run(["hooks", "list", "--trust"], { cwd: project(), home: home(), stdin: NO_INPUT });
    expect(stdout.split("\n").map((row) => row.split(/ +/)[0])).toEqual(["ID", "door", "late", ""]);
    expect(await run(["hooks"])).toMatchObject({ code: 0, stdout: expect.stringContaining("rkat hooks list") });
  });

  it("[N3] of the user are called whatever a project's file says", async () => {
    writeFileSync(join(home(), ".rkat", "config.toml"), hook("door", "echo closed >&2; exit 2"));
    writeFileSync(join(project(), "rkat.toml"), hook("door", "exit 0", "priority = 1\n"));
    await run(["trust"]);
    const { hooks } = JSON.parse((await run(["hooks", "list", "--json"])).stdout);
    const [args, from] = [["-c", "echo closed >&2; exit 2"], join(home(), ".rkat", "config.toml")];
    expect(hooks).toMatchObject([{ id: "door", runtime: { args }, from, failure_policy: "fail_closed" }]);
    expect((await run(["run", "hello", "-m", "offline"])).code).toBe(22);
    const without = await run(["run", "hello", "-m", "offline", "--hooks-override", '{"disable": ["door"]}']);
    expect(without).toMatchObject({ code: 0 });
  });

  it("[N1] one is tried with rkat hooks test, as a turn would call it", async () => {
    writeFileSync(join(home(), ".rkat", "config.toml"), hook("door", "grep -q please || exit 2"));
    const payload = join(line.cwd, "payload.json");
    writeFileSync(payload, JSON.stringify({ prompt: "please" }));
    const allowed = await run(["hooks", "test", "door", "--point", "run_started", "--payload", payload]);
    expect(allowed).toMatchObject({ code: 0, stdout: expect.stringContaining("The step would be taken.") });
    const refused = await run(["hooks", "test", "door", "--json"]);
    expect(refused.code).toBe(22);
    expect(JSON.parse(refused.stdout)).toMatchObject({ denied: "denied by hook door: it said no" });
    const unknown = await run(["hooks", "test", "dor"]);
    expect(unknown.stderr).toContain("there is no hook dor here; there are: door");
  });

  it("[N1] what it is told is no longer than configured, and says so", async () => {
    const { fitPayload } = await import("@rkat/core/turn/hook-payload");
    const call = {
      point: "pre_tool_execution" as const,
      session_id: "s",
      tool_call: {
        tool_use_id: "t",
        name: "shell",
        args: { command: "é".repeat(5_000), list: ["x".repeat(900), "\u0000"] },
      },
    };
    for (const max of [100_000, 4_000, 500, 220]) {
      const fitted = fitPayload(call, max);
      const bytes = Buffer.byteLength(JSON.stringify(fitted));
      expect({ max, isWithin: bytes <= max, truncated: fitted.truncated }).toEqual({
        max,
        isWithin: true,
        truncated: max === 100_000 ? undefined : true,
      });
      expect(fitted.tool_call).toMatchObject({ tool_use_id: "t", name: "shell" });
    }
    expect(fitPayload(call, 10).tool_call).toEqual({ tool_use_id: "t", name: "shell", args: {} });
  });
});
