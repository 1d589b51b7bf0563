import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AgentContext, AgentStatus } from "@rkat/core/contract/agent";
import { CAPABILITY_ABSENT } from "@rkat/core/contract/capability";
import { describe, expect, it } from "vitest";
import { NO_INPUT, useCommandLine } from "./support/command-line.ts";
import { NO_MODEL, OFFLINE } from "./support/compacting-command-line.ts";
import { rememberingModel, SMALL_WINDOWS } from "./support/remembering-command-line.ts";
import { startRkat } from "./support/rkat-process.ts";

const line = useCommandLine();
const { run } = line;
const env = OFFLINE;

const SAID = [
  (n: number) => `I saw ${n} herons at the pond.`,
  (n: number) => `Ich sah ${n} Reiher am Teich.`,
  (n: number) => `池で${n}羽のサギを見た。`,
  (n: number) => `Я видел ${n} цапель у пруда.`,
  (n: number) => `رأيت ${n} مالك حزين عند البركة.`,
  (n: number) => `🦆×${n} on the water`,
] as const;

/** Memories in several languages, by their numbers. */
const memories = (from: number, to: number): readonly string[] =>
  Array.from({ length: to - from + 1 }, (_, at) => (SAID[(from + at) % SAID.length] ?? String)(from + at));

const agent = (words: readonly string[], given: Parameters<typeof run>[1] = {}) =>
  run(["agent", ...words], { env, ...given });

/** Adds memories from a pipe. */
async function pipeIn(name: string, texts: readonly string[]) {
  const added = await agent(["remember", name], { input: texts.join("\n") });
  expect(added.code).toBe(0);
  return added;
}

/** What a command prints with `--json`, which succeeds. */
async function json(...words: string[]) {
  const { code, stdout } = await agent([...words, "--json"]);
  expect({ words, code }).toEqual({ words, code: 0 });
  return JSON.parse(stdout);
}

const statusOf = (name: string): Promise<AgentStatus> => json("status", name);
const contextOf = (name: string): Promise<AgentContext> => json("context", name);

const useSmallWindows = (): void => writeFileSync(join(line.cwd, "rkat.toml"), SMALL_WINDOWS);

describe("rkat agent remember", () => {
  it("[E6] adds what is written, with its metadata, and says how much there is", async () => {
    expect(await agent(["remember", "Ada", "I", "saw", "a", "heron"])).toEqual({
      code: 0,
      stdout: "Remembered. Ada has 1 memory.\n",
      stderr: "",
    });
    expect(await json("remember", "Ada", "It flew away", "--metadata", '{"place": "pond"}')).toEqual({
      count: 2,
      compaction_due: false,
    });
    const { immediate } = await contextOf("Ada");
    expect(immediate).toEqual([
      { seq: 1, content: "I saw a heron", created_at: expect.any(String) },
      { seq: 2, content: "It flew away", created_at: expect.any(String), metadata: { place: "pond" } },
    ]);
  });

  it("[E6] takes each line of a pipe that is not empty, in its order, whatever its language", async () => {
    const texts = memories(1, 60);
    const input = texts.map((text, at) => (at % 7 === 0 ? `${text}  \r\n\n   \n` : `${text}\n`)).join("");
    expect(await agent(["remember", "Åsa"], { input })).toEqual({
      code: 0,
      stdout: "Remembered 60 memories. Åsa has 60.\n",
      stderr: "",
    });
    const last = await agent(["remember", "Åsa", "-", "--json"], { input: "one\ntwo" });
    expect(JSON.parse(last.stdout)).toEqual({ count: 62, compaction_due: false });
    const { immediate } = await contextOf("Åsa");
    expect(immediate.map(({ content }) => content)).toEqual([...texts, "one", "two"]);
  });

  it("leaves a pipe alone when a text is written", async () => {
    await agent(["remember", "Ada", "I saw a heron"], { input: "never read" });
    expect((await contextOf("Ada")).immediate).toHaveLength(1);
  });

  it("counts on a terminal, and only there", async () => {
    const input = memories(1, 100).join("\n");
    const painted = { ...env, NO_COLOR: "", FORCE_COLOR: "0" };
    const { stderr } = await agent(["remember", "Ada"], { input, isTerminal: true, env: painted });
    const shown = stderr.split("\r\u001b[K").filter((part) => part !== "");
    expect(shown.filter((part) => !/^\d+ memories…$/.test(part))).toEqual([]);
    expect({ isShown: shown.length > 0, isCleared: stderr.endsWith("\r\u001b[K") }).toEqual({
      isShown: true,
      isCleared: true,
    });
  });

  it("says how far it came when it is interrupted", async () => {
    const interrupt = new AbortController();
    const read = async function* () {
      yield new TextEncoder().encode("one\ntwo\n");
      interrupt.abort();
      throw new Error("aborted");
    };
    const stdin = { ...NO_INPUT, kind: "stream", read } as const;
    const stopped = await agent(["remember", "Ada"], { stdin, interrupt: interrupt.signal });
    expect(stopped).toEqual({
      code: 130,
      stdout: "",
      stderr: "Remembered 2 memories. Ada has 2.\nInterrupted.\n",
    });
    expect((await statusOf("Ada")).count).toBe(2);
  });
});

describe("[E7] a compaction that became due", () => {
  it("is waited for, told on stderr in the lines of the seed, and there after a restart", async () => {
    const add = (from: number, to: number) =>
      startRkat(line.cwd, ["agent", "remember", "Ada", "-"], { env, input: memories(from, to).join("\n") }).ended;
    const first = await add(1, 150);
    expect(first).toEqual({
      code: 0,
      stdout: "Remembered 150 memories. Ada has 150.\n",
      stderr: expect.stringMatching(
        new RegExp(
          `^${[
            "\\[Memory\\] Ada: Starting compaction \\(129 memories, 64 immediate, 64 recent\\)",
            "\\[Memory\\] Ada: Short-term summary updated \\(\\d+ chars\\)",
            "\\[Memory\\] Ada: Compaction complete \\(first summary\\)",
          ].join("\n")}\n$`,
        ),
      ),
    });
    const second = await add(151, 200);
    expect(second.stderr).toMatch(
      new RegExp(
        `^${[
          "\\[Memory\\] Ada: Starting compaction \\(193 memories, 64 immediate, 64 recent\\)",
          "\\[Memory\\] Ada: Long-term summary updated \\(\\d+ chars\\)",
          "\\[Memory\\] Ada: Short-term summary updated \\(\\d+ chars\\)",
          "\\[Memory\\] Ada: Compaction complete \\(waterfall\\)",
        ].join("\n")}\n$`,
      ),
    );
    const { stdout } = await startRkat(line.cwd, ["agent", "status", "Ada", "--json"], { env }).ended;
    expect(JSON.parse(stdout)).toEqual({
      agent: "Ada",
      count: 200,
      notes: 0,
      immediate_window: 64,
      recent_window: 64,
      immediate_count: 71,
      recent_summary: expect.stringMatching(/\S/),
      recent_range: { from_seq: 66, to_seq: 129 },
      longterm_summary: expect.stringMatching(/\S/),
      longterm_range: { from_seq: 1, to_seq: 65 },
      compactions: 2,
      last_compaction_at: expect.any(String),
      next_compaction_at: 257,
      compaction_due: false,
      compaction_running: false,
    });
  }, 30_000);

  it("is told by rkat-rpc, too, and never on stdout", async () => {
    useSmallWindows();
    const request = (id: number) => ({
      jsonrpc: "2.0",
      id,
      method: "agent/remember",
      params: { agent: "Ada", content: `I saw ${id} herons.` },
    });
    const input = [1, 2, 3, 4, 5].map((id) => `${JSON.stringify(request(id))}\n`).join("");
    const { stdout, stderr } = await startRkat(line.cwd, ["rpc"], { env, input }).ended;
    expect(stderr).toMatch(/^\[Memory\] Ada: Starting compaction \(5 memories, 2 immediate, 2 recent\)$/m);
    expect(stdout).not.toContain("[Memory]");
  }, 30_000);
});

describe("rkat agent status", () => {
  it("[E6] tells counts, tiers with what they cover, the last compaction, the next, and both summaries", async () => {
    useSmallWindows();
    await pipeIn("Ada", memories(1, 8));
    await agent(["note", "Ada", "The pond freezes in January."]);
    const { recent_summary = "", longterm_summary = "" } = await statusOf("Ada");
    const { code, stdout } = await agent(["status", "Ada"]);
    const [facts = "", longterm, recent] = stdout.trimEnd().split("\n\n");
    expect({ code, facts: facts.split("\n").map((row) => row.split(/ {2,}/)) }).toEqual({
      code: 0,
      facts: [
        ["agent", "Ada"],
        ["memories", "8"],
        ["notes", "1"],
        ["immediate", "memories 6–8, word for word; the window is 2"],
        ["short-term", "memories 4–5, in a summary"],
        ["long-term", "memories 1–3, in a summary"],
        ["compactions", expect.stringMatching(/^2, the last just now, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/)],
        ["next", "at 9 memories, 1 from now"],
        ["files", expect.stringMatching(/\/\.rkat\/agents\/Ada$/)],
      ],
    });
    const indented = (text: string) => text.trim().replaceAll(/^/gm, "   ");
    expect(longterm).toBe(`Long-term summary\n${indented(longterm_summary)}`);
    expect(recent).toBe(`Short-term summary\n${indented(recent_summary)}`);
  });

  it("says of a name that nobody has that it remembers nothing, and makes no folder", async () => {
    const { code, stdout } = await agent(["status", "nobody"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/\nnext +at 129 memories, 129 from now\n\nnobody has no memories yet; rkat agent list /);
    expect(await agent(["context", "nobody"])).toEqual({
      code: 0,
      stdout: "You are nobody.\n\n---\n---\n",
      stderr: "nobody has no memories yet; rkat agent list shows the agents that do.\n",
    });
    expect(existsSync(join(line.cwd, ".rkat"))).toBe(false);
  });

  it("cannot steer the terminal", async () => {
    useSmallWindows();
    await pipeIn("Ada", ["I saw a\u001b]0;owned\u0007 heron.", ...memories(1, 4)]);
    for (const word of ["status", "context"]) {
      const { stdout } = await agent([word, "Ada"], { isTerminal: true });
      expect(stdout).toContain("heron");
      expect(stdout).not.toContain("\u001b]");
      expect(stdout).not.toContain("\u0007");
    }
  });
});

describe("rkat agent list", () => {
  it("[E6] tells who there is, by name, as text and as JSON", async () => {
    expect(await agent(["list"])).toEqual({ code: 0, stdout: "No agents found.\n", stderr: "" });
    await pipeIn("池", memories(1, 3));
    await pipeIn("Ada", memories(1, 1));
    const { stdout } = await agent(["list"]);
    expect(stdout).toBe(
      "MEMORIES  CHANGED   SINCE     AGENT\n       1  just now  just now  Ada\n       3  just now  just now  池\n",
    );
    const { agents } = await json("list");
    expect(agents).toMatchObject([
      { agent: "Ada", count: 1 },
      { agent: "池", count: 3 },
    ]);
  });
});

describe("rkat agent context", () => {
  it("[E6] prints the prompt with the notes that are relevant, and as many memories as are asked for", async () => {
    expect((await agent(["note", "Ada", "It freezes", "in January.", "--title", "pond"])).stdout).toBe(
      "Noted. Ada has 1 note.\n",
    );
    const piped = await agent(["note", "Ada", "-", "--json"], { input: "Bees\n\nlike clover.\n" });
    expect(JSON.parse(piped.stdout)).toEqual({ notes: 2 });
    await pipeIn("Ada", ["I fed the ducks.", "I saw a heron.", "I walked to the pond."]);
    expect(await agent(["context", "Ada", "--immediate", "2"])).toEqual({
      code: 0,
      stdout: [
        "You are Ada.",
        "",
        "## Relevant Private Notes",
        "pond: It freezes in January.",
        "",
        "---",
        "I saw a heron.",
        "I walked to the pond.",
        "---",
        "",
      ].join("\n"),
      stderr: "",
    });
  });
});

describe("rkat agent compact", () => {
  it("[E6] compacts what has left the immediate window, whether or not it is due", async () => {
    await pipeIn("Ada", memories(1, 70));
    const { code, stdout, stderr } = await agent(["compact", "Ada"]);
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringMatching(/Compaction complete \(first summary\)\n$/),
    });
    expect(stdout).toMatch(/^Compacted\.\nagent +Ada\n[\s\S]*\nshort-term +memories 1–6, in a summary\n/);
    expect(await json("compact", "Ada")).toEqual({ compacted: false, reason: expect.any(String) });
    expect((await agent(["compact", "Ada"])).stdout).toMatch(/^Not compacted: no memory has left .*\.\n$/);
  });

  it("[E8] fails with its code and its reason, and leaves both summaries as they were", async () => {
    useSmallWindows();
    const { own } = rememberingModel(() => ({ text: "   " }));
    const given = { env: NO_MODEL, own, input: memories(1, 3).join("\n") };
    await agent(["remember", "Ada"], given);
    const text = await agent(["compact", "Ada"], given);
    expect({ ...text, stderr: text.stderr.split("\n").at(-2) }).toEqual({
      code: 30,
      stdout: "",
      stderr: "Error: the compaction failed, and both summaries are as they were: the model returned no usable summary",
    });
    const failed = await agent(["compact", "Ada", "--json"], given);
    expect({ code: failed.code, result: JSON.parse(failed.stdout) }).toEqual({
      code: 30,
      result: { compacted: false, reason: "the model returned no usable summary" },
    });
    const { stdout } = await agent(["status", "Ada"]);
    expect(stdout).toMatch(/\nshort-term +none yet\n[\s\S]*\nproblem +the model returned no usable summary\n/);
  });
});

describe("[E6] what cannot be done is refused in one sentence", () => {
  const NAME = /is invalid; write a name of letters, digits, "_" and "-", .*\n$/;
  const refusals: readonly (readonly [words: string[], sentence: RegExp])[] = [
    [["remember", "../x", "hi"], NAME],
    [["remember", "a b", "hi"], NAME],
    [["remember", "", "hi"], NAME],
    [["context", "..", "--immediate", "2"], NAME],
    [["status", "a/b"], NAME],
    [["remember"], /^Error: missing required argument 'name'; see --help\n$/],
    [["remember", "Ada"], /^Error: there is nothing to remember: write it, like rkat agent remember Ada /],
    [["remember", "Ada", "-"], /^Error: there is nothing to remember: /],
    [["remember", "Ada", " "], /^Error: content: write what to remember\n$/],
    [["remember", "Ada", "x", "--metadata", "{"], /argument '\{' is invalid; write valid JSON\n$/],
    [["remember", "Ada", "x", "--metadata", "[1]"], /is invalid; write a JSON object, like \{"place": "garden"\}\n$/],
    [["note", "Ada"], /^Error: there is nothing to note: write it, like rkat agent note Ada /],
    [["note", "Ada", ""], /^Error: content: write the note\n$/],
    [["note", "Ada", "x", "--title", " "], /^Error: title: write a title, or leave it out\n$/],
    [["context", "Ada", "--immediate", "0"], /argument '0' is invalid; write a whole number of at least 1\n$/],
    [["staus", "Ada"], /^Error: there is no command agent staus; did you mean rkat agent status\?\n$/],
    [["rembember"], /^Error: there is no command agent rembember; did you mean rkat agent remember\?\n$/],
    [
      ["smith", "is", "who?"],
      /^Error: there is no command agent smith; rkat help agent lists them; to ask a model, write rkat run "agent smith is who\?"\n$/,
    ],
  ];
  it.each(refusals)("agent %s", async (words, sentence) => {
    expect(await agent(words)).toEqual({ code: 2, stdout: "", stderr: expect.stringMatching(sentence) });
    expect(existsSync(join(line.cwd, ".rkat"))).toBe(false);
  });

  it("chat --agent ../x", async () => {
    const refused = await run(["chat", "--agent", "../x"], { env, input: "hello" });
    expect(refused).toEqual({ code: 2, stdout: "", stderr: expect.stringMatching(NAME) });
  });

  it("what is piped in and is no text, or too much of it", async () => {
    const bytes = new Uint8Array([0x6f, 0x6e, 0x65, 0x0a, 0xff, 0x0a]);
    const stdin = {
      ...NO_INPUT,
      kind: "stream",
      read: async function* () {
        yield bytes;
      },
    } as const;
    expect(await agent(["remember", "Ada"], { stdin })).toMatchObject({
      code: 2,
      stderr: "Error: stdin is not UTF-8 text\n",
    });
    const input = `one\n\n${"x".repeat(1_000_001)}\nthree`;
    expect(await agent(["remember", "Ada"], { input })).toEqual({
      code: 2,
      stdout: "",
      stderr: "Remembered. Ada has 1 memory.\nError: line 3 of stdin: content: write at most 1000000 characters\n",
    });
  });
});

describe("[F3] without session-store", () => {
  const { code: name, message } = CAPABILITY_ABSENT["session-store"];
  const commands = ["remember Ada hi", "note Ada hi", "context Ada", "compact Ada", "status Ada", "list"];
  it.each([...commands.map((words) => `agent ${words}`), "chat --agent Ada"])("%s is refused", async (words) => {
    const given = { env: { ...env, RKAT_FEATURES: "none" }, input: "hello" };
    const refused = await run([...words.split(" "), "--json"], given);
    expect(refused).toMatchObject({ code: 40, stderr: `Error: ${message}\n` });
    expect(JSON.parse(refused.stdout)).toEqual({ error: { code: name, category: "capability", message } });
  });
});

it("every word of it has a help with an example, in at most 100 columns", async () => {
  const words = ["remember", "note", "context", "compact", "status", "history", "receipt", "list"];
  for (const args of [["help", "agent"], ...words.map((word) => ["agent", word, "--help"])]) {
    const { code, stdout } = await run(args, { env });
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining("\nExamples\n  rkat agent ") });
    expect(stdout.split("\n").filter((each) => each.length > 100)).toEqual([]);
  }
});
