import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "./support/command-line.ts";

const line = useCommandLine();
const { run } = line;

async function ok(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await run(args);
  expect({ args, code, stderr: code === 0 ? "" : stderr }).toEqual({ args, code: 0, stderr: "" });
  return stdout;
}

async function refusal(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await run(args);
  expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: "" });
  expect(stderr).toMatch(/^Error: [^\n]+\n$/);
  return stderr;
}

const write = (name: string, content: unknown): void =>
  writeFileSync(join(line.cwd, name), typeof content === "string" ? content : JSON.stringify(content));

describe("rkat session export and import", () => {
  it("[K2] write a session to stdout and to a file, which makes the same session in another realm", async () => {
    await ok("run", "The server is called heron.", "-m", "offline");
    const file = await ok("session", "export", "last");
    await ok("session", "export", "last", "-o", "s.jsonl");
    expect(readFileSync(join(line.cwd, "s.jsonl"), "utf8")).toBe(file);
    expect(await refusal("session", "export", "last", "-o", "s.jsonl")).toMatch(
      /is there already; --force overwrites it/,
    );
    const { session_id } = JSON.parse(file.split("\n", 1)[0] ?? "");
    const other = ["--realm", "other", "--state-root", "elsewhere"];
    const { imported } = JSON.parse(await ok("session", "import", "s.jsonl", "--json", ...other));
    expect(imported).toMatchObject([{ session_id, source_session_id: session_id, format: "jsonl" }]);
    expect(await ok("session", "export", session_id, ...other)).toBe(file);
    expect(await ok("session", "import", "s.jsonl")).toMatch(new RegExp(`, beside ${session_id}, \\d+ entries`));
  });

  it("[K2] write every session to a folder, archived ones where that is asked for", async () => {
    for (const prompt of ["one thing", "another thing"]) await ok("run", prompt, "-m", "offline");
    await ok("session", "delete", "last");
    await ok("session", "export", "--all", "-o", "some");
    await ok("session", "export", "--all", "--archived", "-o", "all", "--format", "markdown");
    expect([readdirSync(join(line.cwd, "some")).length, readdirSync(join(line.cwd, "all")).length]).toEqual([1, 2]);
    expect(await refusal("session", "export", "--all")).toMatch(/name the folder/);
    expect(await refusal("session", "export")).toMatch(/name one session to export, or say --all/);
  });

  it("[K2] refuse a file that is cut off, is no session, or is not there, and make no folder for it", async () => {
    write(
      "cut.jsonl",
      '{"format":"rkat-session","version":1,"session_id":"01a1e876-ecf0-779c-96c7-9712cafd3ee0","last_seq":1}\n',
    );
    write("odd.txt", "hello");
    expect(await refusal("session", "import", "odd.txt")).toMatch(/odd.txt: its format is unknown/);
    expect(await refusal("session", "import", "gone.jsonl")).toMatch(/gone.jsonl: there is no such file/);
    expect(await refusal("session", "import", ".")).toMatch(/it is not a file/);
    expect(readdirSync(line.cwd).sort()).toEqual(["cut.jsonl", "odd.txt"]);
    expect(await refusal("session", "import", "cut.jsonl")).toMatch(/cut.jsonl: the file is cut off/);
  });

  const CALL = { id: "c1", type: "function", function: { name: "look", arguments: '{"at":"pond"}' } };
  const CHAT = [
    { role: "system", content: "Be brief." },
    { role: "user", content: [{ type: "text", text: "What is in the pond?" }] },
    { role: "assistant", content: null, tool_calls: [CALL] },
    { role: "tool", tool_call_id: "c1", content: "a heron" },
    { role: "assistant", content: "A heron." },
  ];

  it("[K2] take messages of chat completions in, and give them back as they were", async () => {
    write("chat.json", { messages: CHAT });
    await ok("session", "import", "chat.json", "-m", "offline");
    const given = JSON.parse(await ok("session", "export", "last", "--format", "openai"));
    expect(given).toEqual([CHAT[0], { role: "user", content: "What is in the pond?" }, ...CHAT.slice(2)]);
    write("lines.jsonl", `${JSON.stringify({ messages: CHAT })}\n${JSON.stringify({ messages: CHAT.slice(0, 2) })}\n`);
    expect((await ok("session", "import", "lines.jsonl", "-m", "offline")).split("\n")).toHaveLength(3);
    write("bad.json", [{ role: "user", content: 7 }]);
    expect(await refusal("session", "import", "bad.json", "-m", "offline")).toMatch(/bad.json: messages\[0\]: /);
  });

  it("[K2] take ShareGPT's conversations in, and give them back as they were", async () => {
    const conversations = [
      { from: "system", value: "Be brief." },
      { from: "human", value: "What is in the pond?" },
      { from: "gpt", value: "I look." },
      { from: "function_call", value: '{"name":"look","arguments":{"at":"pond"}}' },
      { from: "observation", value: "a heron" },
      { from: "gpt", value: "A heron." },
    ];
    write("shared.json", [{ conversations }]);
    await ok("session", "import", "shared.json", "-m", "offline");
    expect(JSON.parse(await ok("session", "export", "last", "--format", "sharegpt"))).toMatchObject({ conversations });
    write("bad.json", { conversations: [{ from: "ghost", value: "boo" }] });
    expect(await refusal("session", "import", "bad.json")).toMatch(/conversations\[0\]: from: unknown role/);
  });

  it("[K2] take a session of pi in: the branch that ends last, with its calls closed", async () => {
    const at = (second: number): string => new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();
    const entry = (id: string, parentId: string | null, message: object) => {
      return { type: "message", id, parentId, timestamp: at(Number.parseInt(id, 16)), message };
    };
    const lines = [
      { type: "session", version: 3, id: "x", timestamp: at(0), cwd: "/p" },
      entry("1", null, { role: "user", content: "What is in the pond?" }),
      entry("2", "1", { role: "assistant", content: [{ type: "text", text: "A frog." }] }),
      { type: "model_change", id: "3", parentId: "1", timestamp: at(3), provider: "p", modelId: "m" },
      entry("4", "3", {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "I must look." },
          { type: "toolCall", id: "c1", name: "look", arguments: {} },
          { type: "toolCall", id: "c2", name: "look", arguments: {} },
        ],
      }),
      entry("5", "4", {
        role: "toolResult",
        toolCallId: "c1",
        toolName: "look",
        content: [{ type: "text", text: "a heron" }],
      }),
      entry("6", "5", { role: "user", content: "Well?" }),
    ];
    write("pi.jsonl", lines.map((one) => `${JSON.stringify(one)}\n`).join(""));
    const { stderr } = await run(["session", "import", "pi.jsonl", "-m", "offline"]);
    expect(stderr).toMatch(/left out: entries of the type model_change/);
    const { messages } = JSON.parse(await ok("session", "show", "last", "--history", "--json"));
    expect(messages).toMatchObject([
      { role: "user", content: "What is in the pond?", created_at: at(1) },
      { role: "block_assistant", blocks: [{ block_type: "reasoning" }, { block_type: "tool_use" }, {}] },
      { role: "tool_results", results: [{ content: "a heron" }, { is_error: true, content: /no result/ }] },
      { role: "user", content: "Well?" },
    ]);
    write(
      "round.jsonl",
      `${JSON.stringify(lines[0])}\n${JSON.stringify(entry("1", "1", { role: "user", content: "x" }))}\n`,
    );
    const round = await run(["session", "import", "round.jsonl"]);
    expect(round).toMatchObject({ code: 0, stderr: expect.stringMatching(/left out: .* each other's parents/) });
  });
});

describe("rkat memory import and export", () => {
  it("[K2] take notes in once, as memories of an agent and as notices of a session", async () => {
    mkdirSync(join(line.cwd, "notes", ".hidden"), { recursive: true });
    write("notes/heron.md", "The heron stands in the pond.\n");
    write("notes/.hidden/secret.md", "not this");
    write("notes/empty.md", " \n");
    write("outside.md", "nor this");
    symlinkSync(join(line.cwd, "outside.md"), join(line.cwd, "notes", "link.md"));
    const counts = async (...to: readonly string[]) =>
      JSON.parse(await ok("memory", "import", "notes", ...to, "--json"));
    expect(await counts("--agent", "ada")).toEqual({ added: 1, known: 0 });
    expect(await counts("--agent", "ada")).toEqual({ added: 0, known: 1 });
    write("notes/heron.md", "The heron has left.\n");
    expect(await counts("--agent", "ada")).toEqual({ added: 1, known: 0 });
    const reported = (await ok("agent", "export", "ada")).trimEnd().split("\n");
    expect(reported.map((text) => JSON.parse(text).body)).toMatchObject([
      { content: "The heron stands in the pond.", metadata: { path: "heron.md" } },
      { content: "The heron has left.", metadata: { path: "heron.md" } },
    ]);
    await ok("run", "hello", "-m", "offline");
    expect(await counts("--session", "last")).toEqual({ added: 1, known: 0 });
    expect(await counts("--session", "last")).toEqual({ added: 0, known: 1 });
    expect(await refusal("memory", "import", "notes")).toMatch(/say whose they become/);
    expect(await refusal("memory", "import", "nowhere", "--agent", "ada")).toMatch(/there is no such folder/);
  });

  it("[K2] hand out all sessions with a label, and every text that contains a name, with an index to read", async () => {
    await ok("run", "My address is ADA@example.org.", "-m", "offline", "--label", "user=ada");
    await ok("session", "delete", "last");
    await ok("run", "Say nothing of her.", "-m", "offline", "--label", "user=bob");
    await ok("agent", "remember", "eve", "ada@example.org is shy");
    await ok("memory", "export", "--label", "user=ada", "-o", "ada");
    expect(readdirSync(join(line.cwd, "ada", "sessions"))).toHaveLength(2);
    expect(readFileSync(join(line.cwd, "ada", "index.md"), "utf8")).toMatch(
      /\*\*My address is ADA@example\.org\.\*\*.*archived/,
    );
    await ok("memory", "export", "--subject", "Ada@example.org", "-o", "ada.tar");
    const archive = readFileSync(join(line.cwd, "ada.tar"));
    const files = filesIn(archive);
    expect(Object.keys(files)).toEqual(["index.md", "mentions.jsonl"]);
    const mentions = (files["mentions.jsonl"] ?? "")
      .trimEnd()
      .split("\n")
      .map((text) => JSON.parse(text));
    expect(mentions).toMatchObject([
      { seq: 2, role: "user", text: "My address is ADA@example.org." },
      { role: "block_assistant" },
      { agent: "eve", seq: 1, role: "memory_added", text: "ada@example.org is shy" },
    ]);
    expect(files["index.md"]).toContain("ada@example.org is shy");
    expect(await refusal("memory", "export", "--subject", "x")).toMatch(/-o: name the folder or the .tar/);
    expect(await refusal("memory", "export", "-o", "x.tar")).toMatch(/say whose data it is/);
  });
});

/** The files of a ustar archive, by their names; each header's checksum must be right. */
function filesIn(archive: Buffer): Record<string, string> {
  const files: Record<string, string> = {};
  for (let at = 0; archive[at] !== 0; ) {
    const head = Buffer.from(archive.subarray(at, at + 512));
    const text = (from: number, to: number): string => head.toString("latin1", from, to).replace(/[\0 ]+$/, "");
    const [name, size, sum] = [text(0, 100), Number.parseInt(text(124, 136), 8), Number.parseInt(text(148, 156), 8)];
    head.fill(" ", 148, 156);
    expect(head.reduce((total, byte) => total + byte, 0)).toBe(sum);
    files[name] = archive.toString("utf8", at + 512, at + 512 + size);
    at += 512 * (1 + Math.ceil(size / 512));
  }
  return files;
}
