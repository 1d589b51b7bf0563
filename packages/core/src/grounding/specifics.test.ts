import { describe, expect, it } from "vitest";
import { compactionCorpus } from "../../../../test/support/corpus.ts";
import type { Message } from "../contract/message.ts";
import { textsOf } from "./exactness.ts";
import { indexTexts } from "./occurrence.ts";
import { RESULT_END_CHARS_MAX, SPECIFIC_CHARS_MAX, SPECIFICS_MAX, specificsOf } from "./specifics.ts";

const created_at = "2026-01-01T00:00:00.000Z";
const said = (content: string): Message => ({ role: "user", content, created_at });
const answered = (text: string): Message => ({
  role: "block_assistant",
  blocks: [{ block_type: "text", data: { text } }],
  stop_reason: "end_turn",
  created_at,
});
const returned = (content: string): Message => ({
  role: "tool_results",
  results: [{ tool_use_id: "call_1", content, is_error: false }],
  created_at,
});
const numbered = (...messages: readonly Message[]) => messages.map((message, seq) => ({ seq, message }));
const specifics = async (messages: ReturnType<typeof numbered>) =>
  (await specificsOf(messages, () => undefined)).map(({ kind, text, seq }) => ({ kind, text, seq }));
const textsOfKind = async (kind: string, text: string) =>
  (await specifics(numbered(answered(text))))
    .filter((specific) => specific.kind === kind)
    .map((specific) => specific.text);

describe("specifics", () => {
  it.each([
    ["see src/a.ts:12, ./lib/b_test.go and C:\\temp\\x.log", ["src/a.ts", "./lib/b_test.go", "C:\\temp\\x.log"]],
    ["看src/核心/turn.ts或/etc/hosts文件", ["/turn.ts", "/etc/hosts"]],
    ["and/or 24/7 at 90 km/h, read/write, Node.js", []],
    ["die package.json-Datei und README.md", ["package.json", "README.md"]],
  ])("[C15] finds the paths of %j", async (text, paths) => {
    expect(await textsOfKind("path", text)).toEqual(paths);
  });

  it.each([
    [
      "userId max_turns API_KEY $HOME gpt-4o-mini ABC-123",
      ["userId", "max_turns", "API_KEY", "$HOME", "gpt-4o-mini", "ABC-123"],
    ],
    ["process.env.PORT, v1.2.3-rc.1 and 9f3c2ab", ["process.env.PORT", "v1.2.3-rc.1", "9f3c2ab"]],
    ["a@b.example 10.0.0.7:8080 localhost:3000 #8841", ["a@b.example", "10.0.0.7:8080", "localhost:3000", "#8841"]],
    ["123e4567-e89b-12d3-a456-426614174000", ["123e4567-e89b-12d3-a456-426614174000"]],
    ["a 24-hour window, top-10, e.g. mid-2026", []],
    ["PostgreSQL, PayPal and GitHub on AWS, an iPhone", ["PostgreSQL", "PayPal", "GitHub", "AWS", "iPhone"]],
    ["TODO: the JSON API over HTTP in JavaScript, NOT the APIs. NASA: later", []],
  ])("[C15] finds the identifiers of %j", async (text, identifiers) => {
    expect(await textsOfKind("identifier", text)).toEqual(identifiers);
  });

  it.each([
    ["30 s, 12.5 %, €1,200 and 4096", ["30 s", "12.5 %", "€1,200", "4096"]],
    ["on 15.11.2026 at 14:30, 11月15日", ["11月15日", "15.11.2026", "14:30"]],
    ["3 files, step 2 of 10, the 2nd of 99", []],
    ["端口是7443，耗时约4秒", ["7443", "4秒"]],
  ])("[C15] finds the numbers of %j", async (text, numbers) => {
    expect(await textsOfKind("number", text)).toEqual(numbers);
  });

  it("[C15] finds commands in backticks, after a prompt, in tool calls, and exit codes", async () => {
    const call: Message = {
      role: "block_assistant",
      blocks: [{ block_type: "tool_use", data: { id: "call_1", name: "shell", args: { command: "make -j8 all" } } }],
      stop_reason: "tool_use",
      created_at,
    };
    const messages = numbered(
      answered("run `git push origin main`, not `foo`"),
      call,
      returned("$ ls -la\nexit code 2"),
    );
    const commands = (await specifics(messages)).filter(({ kind }) => kind === "command");
    expect(commands).toEqual([
      { kind: "command", text: "git push origin main", seq: 0 },
      { kind: "command", text: "make -j8 all", seq: 1 },
      { kind: "command", text: "ls -la", seq: 2 },
      { kind: "command", text: "exit code 2", seq: 2 },
    ]);
  });

  it("[C15] takes rules from users only, and asks that nobody took up", async () => {
    const messages = numbered(
      said("Never touch the migrations. Which database do we use? What colour is the logo?"),
      answered("We use the database Postgres. You must restart it."),
      said("Das darf niemals auf Produktion laufen! 请不要删除日志。"),
      said("Now the deployment pipeline."),
    );
    const wishes = (await specifics(messages)).filter(({ kind }) => kind === "rule" || kind === "ask");
    expect(wishes).toEqual([
      { kind: "ask", text: "What colour is the logo?", seq: 0 },
      { kind: "rule", text: "Never touch the migrations.", seq: 0 },
      { kind: "ask", text: "请不要删除日志。", seq: 2 },
      { kind: "rule", text: "Das darf niemals auf Produktion laufen!", seq: 2 },
      { kind: "rule", text: "请不要删除日志。", seq: 2 },
      { kind: "ask", text: "Now the deployment pipeline.", seq: 3 },
    ]);
  });

  it("[C15] names each specific once, at its newest mention", async () => {
    const messages = numbered(answered("./src/a.ts costs 1,200 €"), answered("`src/a.ts` costs 1200 EUR"));
    expect(await specifics(messages)).toEqual([
      { kind: "path", text: "src/a.ts", seq: 1 },
      { kind: "number", text: "1200 EUR", seq: 1 },
    ]);
  });

  it("[R2] decodes the JSON of a tool result, and counts neither its envelope nor the sizes and dates of a listing", async () => {
    const listing = `total 352
-rw-r--r--  1 root root  18665 Nov 18 09:41 run-compaction.ts
drwxr-xr-x 27 ada  staff  4.0K 2026-11-18 09:41 grounding
-rw-r--r--@ 1 root root  1204 Nov  3  2025 sent_box.csv`;
    const report = { exit_code: 0, stdout: listing, stderr: "", timed_out: false, duration_secs: 0.0213 };
    const failed = {
      exit_code: 3,
      stdout: JSON.stringify({ port: 8443, note: 'see "src/a.ts"\n' }),
      duration_secs: 1.5,
    };
    const cut = `{"exit_code":0,"stdout":"${JSON.stringify({ file: "src/b.ts", size_kb: 512 }).replaceAll('"', '\\"')}\\n`;
    const called: Message = {
      role: "block_assistant",
      blocks: [
        {
          block_type: "tool_use",
          data: { id: "call_1", name: "read_part", args: { file_path: "src/c.ts", max_lines: 250 } },
        },
      ],
      stop_reason: "tool_use",
      created_at,
    };
    const results = [JSON.stringify(report), JSON.stringify(failed), cut].map(returned);
    const messages = numbered(said("Go on."), called, ...results);
    const found = (await specifics(messages)).filter(({ kind }) => kind !== "ask").map(({ text }) => text);
    expect(found.sort()).toEqual(
      [
        "run-compaction.ts",
        "sent_box.csv",
        "exit code 3",
        "8443",
        "src/a.ts",
        "src/b.ts",
        "size_kb",
        "512",
        "src/c.ts",
        "250",
      ].sort(),
    );
  });

  it("[C15] reads neither reasoning nor encoded media, and of a long result both ends", async () => {
    const thought: Message = {
      role: "block_assistant",
      blocks: [{ block_type: "reasoning", data: { text: "maybe src/secret.ts" } }],
      stop_reason: "end_turn",
      created_at,
    };
    const filler = "so it goes on ".repeat(2 * RESULT_END_CHARS_MAX);
    const long = `first/a.ts ${filler} middle/b.ts ${filler} last/c.ts`;
    const messages = numbered(thought, returned(long), returned(`data ${"QUJD".repeat(200)}`));
    expect((await specifics(messages)).map(({ text }) => text)).toEqual(["first/a.ts", "last/c.ts"]);
  });

  it("[C15] is bounded, in the length of each and in all", async () => {
    const many = Array.from({ length: SPECIFICS_MAX + 10 }, (_, index) => `file-${index}.ts`).join(" ");
    const found = await specifics(numbered(said(`Never ${"ever ".repeat(100)}do that.`), answered(many)));
    expect(found).toHaveLength(SPECIFICS_MAX);
    expect(Math.max(...found.map(({ text }) => text.length))).toBeLessThanOrEqual(SPECIFIC_CHARS_MAX);
    expect(found[0]?.kind).toBe("ask");
  });

  it.each(compactionCorpus())("[C15] finds every specific of $name again in its own message", async ({ messages }) => {
    const found = await specifics(numbered(...messages));
    const indexes = messages.map((message) => indexTexts(textsOf(message), () => undefined));
    const isFound = await Promise.all(found.map((one) => indexes[one.seq]?.has(one)));
    expect(found.length).toBeGreaterThan(15);
    expect(found.filter((_, at) => isFound[at] !== true)).toEqual([]);
  });
});
