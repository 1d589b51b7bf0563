import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { judge } from "../src/surfaces/cli/commands/start-turn.ts";
import { noticeOf, verboseLineOf } from "../src/surfaces/cli/commands/turn-view.ts";
import { createWorkLines } from "../src/surfaces/cli/commands/work-lines.ts";
import { alignColumns, createPaint } from "../src/surfaces/cli/io.ts";
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
