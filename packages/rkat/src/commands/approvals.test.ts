import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { openRuntime } from "@rkat/node/open-runtime";
import { describe, expect, it } from "vitest";
import { NO_INPUT, useCommandLine } from "../../../../test/support/command-line.ts";
import type { Parts } from "../parts.ts";

const line = useCommandLine();
const TASK = { calls: [{ id: "c1", name: "task_create", args: { subject: "Feed the heron", description: "Twice." } }] };

/** Commands whose models make a task first, unless they have its result. */
const own: Partial<Parts> = {
  openRuntime: (options) =>
    openRuntime({
      ...options,
      model: createScriptedModel(({ messages }) =>
        messages.some(({ role }) => role === "tool_results") ? { text: "It is noted." } : TASK,
      ),
    }),
};

const run = (...args: string[]) => line.run(args, { own });
const ask = ["run", "Make a task.", "--ask", "task_*"];

/** Runs a command before a person who presses this key, and gives a reason where one is asked for. */
async function typing(key: string, ...args: string[]) {
  const [input, output] = [new PassThrough(), new PassThrough()];
  output.on("data", (shown: Buffer) => {
    if (shown.toString().includes("Run it?")) input.write(key);
    if (shown.toString().includes("Why not?")) input.write("yes, but not on a Monday\n");
  });
  const terminal = () => ({ input, output }) as never; // As much of a terminal as keys and lines need.
  return line.run(args, { own, isTerminal: true, stdin: { ...NO_INPUT, kind: "terminal", terminal } });
}

describe("a call that a rule asks about", () => {
  it("[I1] is denied where nobody can be asked, with the flag that allows it", async () => {
    writeFileSync(join(line.cwd, "rkat.toml"), '[permissions]\nask = ["task_*"]\n');
    const { stdout } = await run("run", "Make a task.", "--events");
    const results = stdout.split("\n").filter((one) => one.includes('"tool_execution_completed"'));
    expect(results).toEqual([expect.stringMatching(/not run: .*no person can be asked here; allow it with --allow/)]);
    // The flag that is named fits the call, and works.
    expect(results.join("")).toContain("allow it with --allow 'task_create', or everything with --yes");
    for (const flag of [["--yes"], ["--allow", "task_create"]]) {
      const allowed = await run("run", "Make a task.", ...flag, "--events");
      expect(allowed.stdout).not.toContain("not run:");
    }
  });

  it("[I1] names no flag where none satisfies the rule that asks", async () => {
    const { stdout } = await run(...ask, "--allow", "task_create", "--yes", "--events");
    expect(stdout).toMatch(
      /not run: rule ask task_\* of the session; no person can be asked here, and --allow does not satisfy/,
    );
    expect(stdout).not.toContain("allow it with");
  });

  it("[I1] is asked at a terminal, and a no may have a reason", async () => {
    const { stderr, code } = await typing("y", ...ask);
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringMatching(/task_create.*rule ask task_\* of the session.*\n.*Feed the heron/),
    });
    const refused = await typing("r", ...ask, "--events");
    expect(refused.stdout).toContain("not run: the user denied it: yes, but not on a Monday");
  });

  it("[I2] waits for whoever looks later, and goes on in the command that answers", async () => {
    const left = new AbortController();
    const asking = line.run([...ask, "--events"], {
      own: {
        openRuntime: async (options) => {
          const runtime = await own.openRuntime?.(options);
          if (runtime === undefined) throw new Error("there is a runtime");
          const dispatch: typeof runtime.dispatch = (name, input, call = {}) => {
            const { unattended: _, ...rest } = call;
            return runtime.dispatch(name, input, rest);
          };
          return { ...runtime, dispatch };
        },
      },
      interrupt: left.signal,
    });
    let listed = "";
    while (!listed.includes("task_create")) ({ stdout: listed } = await run("session", "approvals"));
    left.abort(130);
    expect((await asking).code).toBe(130);
    expect(listed).toMatch(/Answer with: rkat session approve \S+, or rkat session deny \S+/);
    const answered = await run("session", "approve", "last", "--json");
    expect(JSON.parse(answered.stdout)).toMatchObject({ answered: true, state: "idle", text: "It is noted." });
    expect((await run("session", "approvals")).stdout).toBe("No tool calls are waiting for approval.\n");
    // The former command still works.
    for (const words of [
      ["approve", "last"],
      ["deny", "last"],
      ["answer", "last", "allow"],
    ]) {
      expect(await run("session", ...words)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("has no tool call that waits for approval"),
      });
    }
  });
});
