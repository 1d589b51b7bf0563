import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";
import { NO_MODEL, OFFLINE } from "../../../../test/support/compacting-command-line.ts";
import { rememberingModel, SMALL_WINDOWS } from "../../../../test/support/remembering-command-line.ts";
import type { ModelRequest } from "../ports/model.ts";
import type { AgentContext } from "./agent.ts";

const line = useCommandLine();
const { run } = line;
const env = OFFLINE;
const useSmallWindows = (): void => writeFileSync(join(line.cwd, "rkat.toml"), SMALL_WINDOWS);

/** What a command about Ada prints with `--json`. */
async function json(word: string, ...flags: string[]) {
  const { code, stdout } = await run(["agent", word, "Ada", ...flags, "--json"], { env });
  expect(code).toBe(0);
  return JSON.parse(stdout);
}

/** What Ada remembers word for word. */
async function remembered(): Promise<readonly string[]> {
  const { immediate }: AgentContext = await json("context");
  return immediate.map(({ content }) => content);
}

describe("[E6] rkat chat --agent", () => {
  const chat = (input: readonly string[], flags: readonly string[] = [], given: Parameters<typeof run>[1] = {}) =>
    run(["chat", "-t", "none", ...flags], { env, input: input.join("\n"), ...given });
  const systemOf = (request: ModelRequest | undefined): unknown =>
    request?.messages.find(({ role }) => role === "system");

  it("begins with what the agent remembers, after the configured prompt, and remembers what is said", async () => {
    await run(["agent", "remember", "Ada", "I saw a heron."], { env });
    const { own, asked } = rememberingModel(() => ({ text: "never" }));
    const given = { env: NO_MODEL, own };
    writeFileSync(join(line.cwd, "rkat.toml"), '[agent]\nsystem_prompt = "Be brief."\n');
    const first = await chat(["Hello!  ", "What did \\\nyou see?"], ["--agent", "Ada"], given);
    expect(first).toMatchObject({ code: 0, stdout: "Quite so.\nQuite so.\n" });
    expect(first.stderr).toMatch(/\nAda has 1 memory; @memory-status shows them\.\n/);
    expect(first.stderr).toMatch(/\nCome back with: rkat chat --resume \S+ --agent Ada\n$/);
    expect(systemOf(asked[0])).toMatchObject({
      content: "Be brief.\n\nYou are Ada.\n\n---\nI saw a heron.\n---",
    });
    const said = ["I saw a heron.", "User: Hello!", "Ada: Quite so.", "User: What did \nyou see?", "Ada: Quite so."];
    expect(await remembered()).toEqual(said);
    await chat(["And now?"], ["--agent", "Ada", "--system", "Be kind."], given);
    expect(systemOf(asked.at(-1))).toMatchObject({
      content: `Be kind.\n\nYou are Ada.\n\n---\n${said.join("\n")}\n---`,
    });
  });

  it("goes on with a session as it is, and remembers what is said in it", async () => {
    await chat(["My name is Bo."]);
    const { code, stdout } = await run(["chat", "--continue", "--agent", "Ada"], { env, input: "What is my name?" });
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/Bo/) });
    expect(await remembered()).toEqual(["User: What is my name?", `Ada: ${stdout.trim()}`]);
    const context = await run(["session", "context", "last", "--json"], { env });
    expect(context.stdout).not.toContain("You are Ada");
  });

  it("forgets a turn that failed", async () => {
    const { code } = await chat(["hello"], ["--agent", "Ada", "-m", "openai/gpt-5"], { env: { NO_COLOR: "1" } });
    expect(code).toBe(2);
    expect((await json("status")).count).toBe(0);
  });

  it("@memory-status and @compact-memories do what the commands do; another @word is a prompt", async () => {
    useSmallWindows();
    const { code, stdout, stderr } = await chat(
      ["@heron are you there?", "One.", "@memory-status", " @compact-memories ", "@compact-memories"],
      ["--agent", "Ada"],
    );
    expect(code).toBe(0);
    expect(stdout).toMatch(/\nagent +Ada\nmemories +4\n[\s\S]*\nnext +at 5 memories, 1 from now\n/);
    expect(stdout).toMatch(/\nCompacted\.\nagent +Ada\n[\s\S]*\nshort-term +memories 1–2, in a summary\n/);
    expect(stdout).toMatch(/\nNot compacted: no memory has left .*\.\n$/);
    expect(stderr).toMatch(/\n\[Memory\] Ada: Starting compaction \(4 memories, 2 immediate, 2 recent\)\n/);
    const all = await json("context", "--immediate", "4");
    expect(all.immediate[0]).toMatchObject({ content: "User: @heron are you there?" });
  });

  it("tells of a compaction after the turn that made it due, not in its midst", async () => {
    useSmallWindows();
    const { code, stderr } = await chat(["One.", "Two.", "Three."], ["--agent", "Ada"]);
    expect(code).toBe(0);
    expect(stderr).toMatch(
      /(?:\[Session: .*\]\n){3}\[Memory\] Ada: Starting compaction \(5 memories, 2 immediate, 2 recent\)\n/,
    );
    expect(await json("status")).toMatchObject({ count: 6, compactions: 1, compaction_due: false });
  });

  it.each(["@memory-status", "@compact-memories"])("%s without --agent says how to talk to one", async (word) => {
    expect(await chat([word, "never asked"])).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining(`Error: ${word} needs an agent; start the chat with rkat chat --agent NAME\n`),
    });
  });

  it("/help offers both", async () => {
    const { stderr } = await chat(["/help"]);
    expect(stderr).toMatch(/\n {2}@memory-status +with --agent: .*\n {2}@compact-memories +with --agent: /);
  });
});
