import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";
import { openRuntime } from "@rkat/node/open-runtime";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";
import { typedTo } from "../../../../test/support/keyboard.ts";
import type { Parts } from "../parts.ts";

const line = useCommandLine();
const { run } = line;

function answering(...script: readonly ScriptedStep[]): Partial<Parts> {
  const model = createScriptedModel(script);
  return { openRuntime: (options) => openRuntime({ ...options, model }) };
}

const PATCH = "*** Begin Patch\n*** Add File: heron.txt\n+It stands.\n*** End Patch\n";
const WORKING: readonly ScriptedStep[] = [
  { reasoning: { text: "I should\u001b[2J look." }, calls: [{ name: "shell", args: { command: "seq 1 300" } }] },
  {
    calls: [
      { name: "apply_patch", args: { patch: PATCH } },
      { name: "task_list", args: {} },
    ],
  },
  { text: "Done:\n```sh\nls\n```\nand\n```ts\nconst a = 1;\n```\n" },
];

describe("/expand", () => {
  it("[G5] shows what the last turn thought, called and was given, with calls counted from the newest back", async () => {
    const flags = ["chat", "-t", "workspace", "--yes"];
    const given = { env: { FORCE_COLOR: "1" }, own: answering(...WORKING), input: "go\n/expand\n/expand 2" };
    const { code, stdout } = await run(flags, given);
    expect(code).toBe(0);
    const plain = stripVTControlCharacters(stdout);
    expect(plain).toMatch(/\nthought\n {3}I should\[2J look\.\n\n3 {2}shell\n {3}seq 1 300\n {3}← answered\n/);
    expect(plain).toMatch(
      /\n2 {2}apply_patch\n {3}\*\*\* Begin Patch\n {3}\*\*\* Add File: heron\.txt\n {3}\+It stands\.\n/,
    );
    expect(plain).toMatch(/\n1 {2}task_list\n/);
    expect(stdout).toContain("\u001b[32m+It stands.\u001b[39m");
    expect(plain.match(/^2 {2}apply_patch$/gm)).toHaveLength(2);
  });

  it("[G5] bounds a long result, and shows it whole when it is named, also after a resume", async () => {
    const script = [{ calls: [{ name: "shell", args: { command: "seq 1 300; exit 3" } }] }, { text: "Read." }];
    await run(["chat", "-t", "workspace", "--yes"], { own: answering(...script), input: "go" });
    const again = (input: string) => run(["chat", "--continue"], { own: answering(), input });
    const { stdout } = await again("/expand");
    expect(stdout).toMatch(/\n {3}199\n {3}200\n {3}… 101 more lines; \/expand 1 shows all of it\n\n$/);
    expect((await again("/expand 1")).stdout).toMatch(/\n {3}299\n {3}300\n {3}\(exit 3\)\n\n$/);
    expect(await again("/expand 2")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Error: /expand 2: only 1 call was made, and the newest is 1\n"),
    });
    expect((await again("/expand all")).stderr).toContain("/expand all: write the number of a call; the newest is 1");
  });

  it("[G5] says so where there is nothing to expand", async () => {
    const { stderr } = await run(["chat"], { own: answering({ text: "Yes." }), input: "go\n/expand" });
    expect(stderr).toContain("The last turn had no reasoning and no tool calls");
    expect((await run(["chat"], { own: answering(), input: "/expand" })).stderr).toContain(
      "the chat has no messages yet",
    );
  });
});

describe("/copy", () => {
  /** A program that keeps what it is given, as one for the clipboard would. */
  function clipboard(name: string, script = 'cat > "$HOME/copied"'): string {
    const folder = join(line.cwd, "bin");
    mkdirSync(folder);
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(folder, name), 0o755);
    return folder;
  }

  const copied = (): string => readFileSync(join(line.cwd, "copied"), "utf8");
  const PATH = `/usr/bin${delimiter}/bin`;

  it("[G5] hands a program of the machine the last answer, its last code, or the whole talk", async () => {
    const folder = clipboard("pbcopy");
    const env = { PATH: `${folder}${delimiter}${PATH}`, HOME: line.cwd };
    const own = answering({ text: "Done:\n```sh\nls\n```\nand\n```ts\nconst a = 1;\n```\n" });
    const { code, stderr } = await run(["chat", "-t", "none"], { env, own, input: "go\n/copy code" });
    expect({ code, copied: copied() }).toEqual({ code: 0, copied: "const a = 1;" });
    expect(stderr).toContain("\nCopied 12 characters by pbcopy.\n");
    await run(["chat", "--continue"], { env, own, input: "/copy" });
    expect(copied()).toMatch(/^Done:\n```sh\n/);
    await run(["chat", "--continue"], { env, own, input: "/copy all" });
    expect(copied()).toMatch(/^# go\n/);
    expect((await run(["chat", "--continue"], { env, own, input: "/copy it" })).stderr).toContain(
      "write /copy, /copy code",
    );
  });

  it("[G5] asks the terminal where there is no program, or the one there fails", async () => {
    const folder = clipboard("pbcopy", "exit 1");
    const env = { PATH: `${folder}${delimiter}${PATH}` };
    const own = answering({ text: "Grüße" });
    const { ended, type, saw, written } = typedTo(run, ["chat", "-t", "none"], { env, own });
    await saw("> ");
    await type("go", "Grüße");
    await type("/copy", "by the terminal, where it allows that (OSC 52)");
    await type("/quit", "Come back");
    await ended;
    expect(written()).toContain(`\u001b]52;c;${Buffer.from("Grüße").toString("base64")}\u0007`);
  });

  it("[G5] refuses what no terminal takes, and where there is none, with what to do", async () => {
    const env = { PATH: join(line.cwd, "nowhere") };
    const piped = await run(["chat", "-t", "none"], { env, own: answering({ text: "Yes." }), input: "go\n/copy" });
    expect(piped).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        "nothing was copied: there is neither a program for it nor a terminal; /export FILE",
      ),
    });
    const own = answering({ text: "x".repeat(80_000) });
    const { ended, type, saw } = typedTo(run, ["chat", "-t", "none"], { env, own });
    await saw("> ");
    await type("go", "x".repeat(70));
    await type("/copy", "a terminal takes 75.0 KB, and this is 80.0 KB");
    await type("/quit", "Come back");
    await ended;
  });
});
