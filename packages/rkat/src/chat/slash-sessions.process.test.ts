import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";
import { typedTo } from "../../../../test/support/keyboard.ts";
import { sessionPicker } from "./slash-sessions.ts";

const line = useCommandLine();
const { run } = line;
const env = { RKAT_MODEL: "offline" };
const chat = (...input: readonly string[]) => run(["chat", "-t", "none"], { env, input: input.join("\n") });

async function listed(): Promise<readonly { readonly session_id: string; readonly title: string }[]> {
  return JSON.parse((await run(["session", "list", "--json"], { env })).stdout).sessions;
}

describe("sessions in a chat", () => {
  it("[G5] /resume from a pipe lists the sessions and says how to name one", async () => {
    await chat("My name is Ada.");
    const { code, stdout, stderr } = await chat("My name is Bob.", "/resume");
    expect(code).toBe(0);
    expect(stdout).toMatch(/\n\S{13} My name is Bob\. +this one · just now · 2 messages · offline\n/);
    expect(stdout).toMatch(/\n\S{13} My name is Ada\. +just now · 2 messages · offline\n$/);
    expect(stderr).toContain("\n/resume SESSION resumes one: last, ~1, or the beginning of its id.\n");
  });

  it("[G5] /resume lets a person choose, and goes on there", async () => {
    await chat("My name is Ada.");
    await chat("My name is Bob.");
    const { ended, pressed, type, saw, screen } = typedTo(run, ["chat", "-t", "none"], { env });
    await saw("> ");
    await type("/resume", "│ you: My name is Bob.");
    await pressed("\u001b[B", "│ you: My name is Ada.");
    await type("", "Now in ");
    await type("What is my name?", "Ada");
    await type("/resume", "type to search");
    await pressed("\u001b", "> ");
    await type("/quit", "Come back with");
    expect(await ended).toMatchObject({ code: 0 });
    expect(screen()).toMatch(/^> What is my name\?\n.*Ada/m);
    expect(await listed()).toHaveLength(2);
  });

  it("[G5] rkat resume alone lets a person choose and talks there; a script is told what is missing", async () => {
    await chat("My name is Ada.");
    const missing = "Error: missing required argument 'session': write an id, the first 4 or more characters";
    expect(await run(["resume"], { env })).toMatchObject({ code: 2, stderr: expect.stringContaining(missing) });
    const { ended, type, saw, screen } = typedTo(run, ["resume"], { env });
    await saw("│ you: My name is Ada.");
    await type("", "with offline");
    await type("What is my name?", "Ada");
    await type("/quit", "Come back with");
    expect(await ended).toMatchObject({ code: 0 });
    expect(screen()).toMatch(/^> What is my name\?\n.*Ada/m);
    expect(await listed()).toHaveLength(1);
  });

  it("[G5] /resume with nothing to resume says so", async () => {
    const { code, stderr } = await chat("/resume");
    expect(code).not.toBe(0);
    expect(stderr).toContain("Error: there is no session yet; the first prompt starts one\n");
  });

  it("[G5] a list of sessions stays a line each, whatever they are called", async () => {
    const title = `\u001b]0;owned\u0007\u001b[2J${"long ".repeat(200_000)}`;
    await run(["run", "--stdin", "blob"], { env, input: title });
    const { stdout } = await chat("/resume");
    expect(stdout).not.toMatch(/\p{Cc}(?<!\n)/u);
    expect(stdout.split("\n").every((row) => row.length < 250)).toBe(true);
  });

  it("[G5] /fork goes on from before a message, and shows what it was", async () => {
    const { stdout, stderr } = await chat("My name is Ada.", "My name is Bob.", "/fork", "/fork 2", "What is my name?");
    expect(stdout).toMatch(/\nMy name is Bob\. {2}message 2\nMy name is Ada\. {2}message 0\n/);
    expect(stderr).toContain("\n/fork N forks before message N.\n");
    expect(stderr).toMatch(/\nNow in \S{13}, a fork of \S{13} before message 2\.\nIt was:\nMy name is Bob\.\n/);
    expect(stdout.trimEnd().split("\n").at(-1)).toMatch(/Ada/);
    expect(stdout.trimEnd().split("\n").at(-1)).not.toMatch(/Bob/);
    expect((await listed()).map(({ title }) => title)).toEqual(["My name is Ada.", "My name is Ada."]);
    const refused = await chat("hello", "/fork two");
    expect(refused).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("/fork two: write the number of a message"),
    });
    expect(await chat("/fork")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("the chat has no messages yet"),
    });
  });

  it("[G5] /fork tells of files that went with a message", async () => {
    writeFileSync(join(line.cwd, "note.md"), "The heron stands.");
    const { stderr } = await chat("Read @note.md please.", "/fork 0");
    expect(stderr).toContain(
      "\nIt had 1 file with it; name them with @ to attach them again.\nIt was:\nRead note.md please.\n",
    );
  });

  it("[G5] /export writes what its ending says, and overwrites nothing", async () => {
    mkdirSync(join(line.cwd, "out"));
    const { code, stderr } = await chat("My name is Ada.", "/export", "/export talk.json", "/export out");
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining("\nWrote talk.json: ") });
    const [, name = ""] = /\nWrote (\S{13}\.md): /.exec(stderr) ?? [];
    const markdown = readFileSync(join(line.cwd, name), "utf8");
    expect(markdown).toMatch(/^# My name is Ada\.\n/);
    expect(readFileSync(join(line.cwd, "out", name), "utf8")).toBe(markdown);
    expect(JSON.parse(readFileSync(join(line.cwd, "talk.json"), "utf8"))[0]).toMatchObject({ role: "user" });
    symlinkSync("elsewhere.md", join(line.cwd, "link.md"));
    for (const there of ["talk.json", "link.md"]) {
      expect(await chat("hello", `/export ${there}`)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining(`Error: ${there} exists already; name another: /export FILE\n`),
      });
    }
    expect((await chat("hello", "/export talk.docx")).stderr).toContain("end its name with .md, .html, .jsonl, .json");
  });

  it("[G5] a list has the newest of many sessions, with what was said last in each", async () => {
    const model = createScriptedModel((_, index) => ({ text: `Noted as ${index}.` }));
    const runtime = createRuntime({ store: createInMemoryStore(), model });
    for (let index = 0; index < 250; index += 1) await runtime.dispatch("createSession", { prompt: `Fact ${index}.` });
    const { choices } = await sessionPicker({ runtime });
    expect(choices).toHaveLength(200);
    const newest = choices.find(({ label }) => label.endsWith(" Fact 249."));
    expect(newest).toMatchObject({ note: "just now · 2 messages · scripted", words: "Noted as 249." });
    expect(await newest?.preview?.()).toEqual(["you: Fact 249.", "model: Noted as 249."]);
    await runtime.close();
  });
});
