import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { judge } from "rkat/commands/start-turn";
import { createWorkLines, noticeOf, verboseLineOf } from "rkat/commands/turn-view";
import { alignColumns, createPaint } from "rkat/io";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "./support/command-line.ts";

/** Renames the window, in both spellings of the sign that begins such a sequence, and clears the screen. */
const STEERING = "\u001b]0;owned\u0007\u009b2J\r";
// biome-ignore lint/suspicious/noControlCharactersInRegex: it is what must not be there.
const STEERS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;
const line = useCommandLine();
const env = { NO_COLOR: "1" };
const toml = (text: string) => JSON.stringify(text).replace("\u009b", "\\u009b");

describe("text from elsewhere steers no terminal", () => {
  it("[H2] as a label, a model or a title of a session", async () => {
    const words = ["run", `hello ${STEERING}`, "-m", "offline", "--label", `team=${STEERING}core`];
    await line.run(words, { env });
    for (const shown of [
      ["session", "show", "last"],
      ["session", "list"],
      ["session", "show", "last", "--history"],
    ]) {
      const { stdout, stderr } = await line.run(shown, { env, isTerminal: true });
      expect(`${stdout}${stderr}`, shown.join(" ")).not.toMatch(STEERS);
    }
    const { stdout } = await line.run(["session", "show", "last", "--json"], { env });
    expect(stdout).not.toMatch(STEERS);
    expect(JSON.parse(stdout).labels).toEqual({ team: `${STEERING}core` });
  });

  it("[H2] nor turns a text around, hides one in it, or breaks its line, while words of every script stay", () => {
    expect(withoutControls("rm \u202etxt.a\u202c \u2067b\u2069")).toBe("rm ‹U+202E›txt.a‹U+202C› ‹U+2067›b‹U+2069›");
    expect(withoutControls("a\u2028b\u2029c\ufeffd\u206ae\ufff9f")).toBe("a b cdef");
    expect(withoutControls("a\u{e0072}\u{e006d}b\u{e0001}")).toBe("ab");
    expect(withoutControls(`a${"\ufe0f".repeat(99)}b${"\u{e0100}\ufe00".repeat(99)}c`)).toBe("a\ufe0fb\u{e0100}c");
    expect(withoutControls("a\ud83db\udc69c\udb40")).toBe("a\ufffdb\ufffdc\ufffd");
    const kept =
      "a\tb\nc שָׁלוֹם\u200f! مرحبا\u061c \u200e1 می\u200cخواهم क्\u200dष 👩\u200d👧 ❤\ufe0f 葛\u{e0100} 𝒳 e\u0301";
    expect(withoutControls(kept)).toBe(kept);
  });

  it("[H2] and is the same text as ever where a script reads it", async () => {
    const label = "a\u202eb\u2028c\u{e0041}d\ufe0f\ufe0f";
    await line.run(["run", "hello", "-m", "offline", "--label", `team=${label}`], { env });
    const { stdout } = await line.run(["session", "show", "last", "--json"], { env, isTerminal: true });
    expect(JSON.parse(stdout).labels).toEqual({ team: label });
    const shown = await line.run(["session", "show", "last"], { env, isTerminal: true });
    expect(shown.stdout).toContain("a‹U+202E›b cd");
  });

  it("[H2] as a name in a configuration", async () => {
    const name = toml(`lab${STEERING}`);
    const rows = [
      `[self_hosted.servers.${name}]\nbase_url = "http://127.0.0.1:9"`,
      `[models.${name}]\nprovider = ${name}\ncontext_window = 1000`,
      `[agent]\nsystem_prompt = ${name}`,
    ];
    writeFileSync(join(line.cwd, "rkat.toml"), `${rows.join("\n")}\n`);
    const completing = ["__complete", "bash", "--", "run", "-m", ""];
    for (const words of [["doctor"], ["models"], ["models", "--json"], ["config", "get"], completing]) {
      const { stdout, stderr } = await line.run(words, { env, isTerminal: true });
      expect(`${stdout}${stderr}`, words.join(" ")).not.toMatch(STEERS);
    }
  });

  it("[H2] as the name of a tool, an argument or a failure", () => {
    const call = { id: "1", name: `t${STEERING}` };
    const events = [
      { type: "tool_call_requested", ...call, args: { a: STEERING } },
      { type: "tool_execution_completed", ...call, result: STEERING, is_error: true, duration_ms: 1 },
      { type: "tool_execution_timed_out", ...call, timeout_ms: 1 },
    ] as const;
    const work = createWorkLines(createPaint({ isTerminal: false, columns: 80, write: () => {} }, {}), () => 0);
    for (const event of events) {
      const lines = [noticeOf(event), ...work(event), verboseLineOf(event)];
      expect(lines.join("")).not.toMatch(STEERS);
    }
    expect(alignColumns([[`a${STEERING}\n`, "b"]]).join("")).not.toMatch(/[\n\r]/);
    const usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };
    const failed = { attempts: 1, reason: STEERING, last_output: "" };
    const result = { session_id: "1", text: "", turns: 1, tool_calls: 0, usage };
    const { sentence } = judge(
      { ...result, terminal_cause_kind: "structured_output_validation_failed", extraction_error: failed },
      {},
    );
    expect(sentence).not.toMatch(STEERS);
  });
});
