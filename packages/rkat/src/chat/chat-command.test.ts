import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ERRORS } from "@rkat/core/contract/error";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { openRuntime } from "@rkat/node/open-runtime";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";
import { keyboard } from "../../../../test/support/keyboard.ts";
import type { Parts } from "../parts.ts";
import { parseSlash } from "./slash-commands.ts";

const line = useCommandLine();
const { run } = line;
const env = { RKAT_MODEL: "offline" };

describe("rkat chat from a pipe", () => {
  it("takes each line as a turn of one session, and joins those that end in a backslash", async () => {
    const { code, stdout, stderr } = await run(["chat"], { env, input: "My name is Ada.\n\nWhat is \\\nmy name?" });
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^.*\n.*Ada.*\n$/) });
    expect(stderr).toMatch(/^A new session\. It is kept: rkat chat --continue comes back to it\./);
    const [, id = ""] = /\nCome back with: rkat chat --resume (\S+)\n$/.exec(stderr) ?? [];
    const again = await run(["chat", "--resume", id], {
      env,
      input: "What is my name?\n/history\n/sessions\n/context",
    });
    expect(again.stderr).toContain(`Session ${id}: 4 messages with offline.`);
    expect(again.stdout).toMatch(/Ada/);
    expect(again.stdout).toMatch(/\n2 {2}you {2}seq \d+\n {3}What is \n {3}my name\?\n/);
    expect(again.stdout).toMatch(/\nID +CHANGED .*\n.* 6 .*My name is Ada\./);
    expect(again.stdout).toMatch(
      /\n6 messages, about [\d,]+ of [\d,]+ tokens\n▚+█+·+│·+\n▚ tools +[\d,]+\n█ turns +\d+ {2}3 turns\n/,
    );
  });

  it("begins anew, changes the model, and ends at the first failure with its code", async () => {
    const input = "My name is Ada.\n/model\n/new\nWhat is my name?\n/model openai/gpt-5\nhello\nnever asked";
    // Without tools: with them the new session finds in the old one what it was not told.
    const { code, stdout, stderr } = await run(["chat", "-t", "none"], { env, input });
    expect(code).toBe(2);
    expect(stdout.trimEnd().split("\n").at(-1)).not.toMatch(/Ada/);
    expect(stderr).toMatch(
      /\nCurrent model: offline \(offline\)\. \/model NAME switches to another\.\nThe next prompt starts/,
    );
    expect(stderr).toMatch(/\nThe next turn uses openai\/gpt-5\.\nCome back with: .*\nError: no key for openai/);
  });

  it("[Q3] works on a prompt until /goal or --until is reached, shows the goal, and fails where it is not", async () => {
    const input = "/goal !true\nSay hello.\n/goal\n/goal end";
    const { code, stderr } = await run(["chat", "-t", "full"], { env, input });
    expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringContaining("The next prompt works until") });
    expect(stderr.match(/Goal reached, turn 1 of 20: true \(exit code 0\)\./g)).toHaveLength(2);
    const ended = await run(["chat", "-t", "full"], { env, input: "/goal !false\n/goal end\nSay hello.\n/goal" });
    expect(ended).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/\nThere is no goal\.\n.*\nThere is no goal\./s),
    });
    const said = await run(["run", "Say hello.", "-t", "full", "--until", "false", "--goal-turns", "1", "--json"], {
      env,
    });
    expect(said.code).toBe(ERRORS.BUDGET_EXHAUSTED.exit);
    expect(JSON.parse(said.stdout)).toMatchObject({ goal: { phase: "budget", turns: 1, until: { command: "false" } } });
    expect(said.stderr).toContain("The goal is not reached after 1 turn; budget: it has had its 1 turns.");
  });

  it.each([
    ["run Hi. --goal-turns 3", "--until or --until-true: write one of them"],
    ["run Hi. --goal-cost 1 --goal-time 1h", "--until or --until-true: write one of them"],
    ["run Hi. --until a --until-true b", "--until or --until-true: write one of them"],
    [
      "run Hi. --until sk-proj-abcdefghijklmnopqrstuvwxyz123456",
      "--until: it contains a secret; put that into a variable of shell_env",
    ],
  ])("[Q3] [H1] names the flags of a goal that cannot be: rkat %s", async (line, sentence) => {
    const { code, stderr } = await run(line.split(" "), { env });
    expect({ code, stderr }).toEqual({ code: 2, stderr: `Error: ${sentence}\n` });
  });

  it("refuses a command that is not there, and takes a path for a prompt", async () => {
    expect(await run(["chat"], { env, input: "/frob" })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Error: there is no /frob; /help lists them\n"),
    });
    expect(parseSlash("/usr/bin is full")).toBe(undefined);
    expect(parseSlash("/model  openai/gpt-5 ")).toEqual({ name: "model", rest: "openai/gpt-5" });
    expect(await run(["chat"], { env })).toMatchObject({ code: 2 });
  });

  it("[G5] keeps nothing of a private one, and refuses what would need what is kept", async () => {
    const input = "My name is Ada Lovelace.\nWhat is my name?\n/resume\n";
    const { code, stdout, stderr } = await run(["chat", "--private"], { env, input });
    expect({ code, stdout }).toEqual({ code: 40, stdout: expect.stringMatching(/\n.*Ada Lovelace.*\n$/) });
    expect(stderr).toMatch(/^A new session\. It is not kept\./);
    const files = readdirSync(line.cwd, { recursive: true, withFileTypes: true });
    const kept = files.filter((file) => file.isFile()).map((file) => readFileSync(join(file.parentPath, file.name)));
    expect(kept.filter((bytes) => bytes.includes("Lovelace"))).toEqual([]);
    expect(await run(["chat", "--private", "--continue"], { env, input })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--private"),
    });
  });

  it("[F3] talks without a store, and says that nothing is kept", async () => {
    const bare = { ...env, RKAT_FEATURES: "none" };
    const { code, stdout, stderr } = await run(["chat"], { env: bare, input: "My name is Ada.\nWhat is my name?\n" });
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/\n.*Ada.*\n$/) });
    expect(stderr).toMatch(/^A new session\. It is not kept\./);
    expect(stderr).not.toMatch(/Come back/);
  });
});

describe("rkat chat at a terminal", () => {
  const CTRL_C = "\u0003";
  const CTRL_D = "\u0004";
  const UP = "\u001b[A";

  /** A chat whose model falls silent when it is asked to wait. */
  function chat(...flags: string[]) {
    const { stdin, press, shown } = keyboard();
    const model = createScriptedModel(({ messages }) => {
      const asked = JSON.stringify(messages.at(-1));
      return asked.includes("wait")
        ? { text: "Let me", ends: "silent" }
        : { text: `You said ${asked.length} characters.` };
    });
    const own: Partial<Parts> = { openRuntime: (options) => openRuntime({ ...options, model }) };
    const ended = run(["chat", ...flags], { env: { NO_COLOR: "1" }, stdin, isTerminal: true, own });
    const saw = (text: string) => expect.poll(shown).toContain(text);
    return { ended, press, saw, shown, model };
  }

  const LOOK_MS = 10;

  it("[G5] stops a turn at Ctrl-C, drops a line at the next, and ends at two on an empty line", async () => {
    const { ended, press, saw, shown } = chat();
    await saw("> ");
    await press("wait for me\r");
    await saw("answering");
    await press("typed meanwhile");
    await press(CTRL_C);
    await saw("Interrupted.");
    await press(CTRL_C);
    await press(UP);
    await saw("typed meanwhile");
    await press(CTRL_C);
    await press(CTRL_C);
    await saw("Press Ctrl-C again");
    await press(CTRL_C);
    expect(await ended).toMatchObject({ code: 0 });
    expect(shown()).toMatch(/A new session\.[\s\S]*> wait for me\r\n[\s\S]*Let me[\s\S]*Interrupted\.\r\n/);
    expect(shown()).toMatch(/Come back with: rkat chat --resume [0-9a-f-]{13}\r\n/);
  });

  it("sends a paste whole, brings back what was typed before, and ends at Ctrl-D", async () => {
    const { ended, press, saw, model } = chat();
    const asked = () => {
      const message = model.requests.at(-1)?.messages.at(-1);
      return message?.role === "user" ? message.content : undefined;
    };
    await saw("> ");
    await press("\u001b[200~one\rtwo\\\rthree\u001b[201~");
    expect(model.requests).toEqual([]);
    await press("!\r");
    while (model.requests.length < 1) await sleep(LOOK_MS);
    expect(asked()).toBe("one\ntwo\\\nthree!");
    await press("again \\\r");
    await press("and again\r");
    while (model.requests.length < 2) await sleep(LOOK_MS);
    expect(asked()).toBe("again \nand again");
    await press(UP);
    await press("\r");
    while (model.requests.length < 3) await sleep(LOOK_MS);
    expect(asked()).toBe("again \nand again");
    await press(CTRL_D);
    expect(await ended).toMatchObject({ code: 0 });
  });

  it("goes on after a failure", async () => {
    const { ended, press, saw, shown } = chat("--max-tokens", "1");
    await saw("> ");
    await press("/frob\r");
    await press("hello\r");
    await press("/quit\r");
    expect(await ended).toMatchObject({ code: 0 });
    expect(shown()).toMatch(
      /Error: there is no \/frob; [^\n]*\n[\s\S]*Stopped: the token budget of 1 is used up\.\r\n[\s\S]*Come back/,
    );
  });
});
