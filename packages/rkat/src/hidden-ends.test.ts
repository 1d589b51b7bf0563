import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JsonObject } from "@rkat/core/contract/session";
import { describe, expect, it, onTestFinished } from "vitest";
import { showCalls } from "./chat/ask-person.ts";
import { readPastPrompts } from "./chat/past-prompts.ts";
import { statusLine, UNKNOWN } from "./chat/status-line.ts";
import { completePath } from "./chat/typed-prompt.ts";
import { createPaint, type Io, oneLine } from "./io.ts";
import type { Opened } from "./open-runtime.ts";

function output() {
  let text = "";
  const write = (part: string | Uint8Array): void => {
    text += part;
  };
  return { isTerminal: true, columns: 80, write, text: () => text };
}

function shownOf(args: JsonObject): string {
  const stderr = output();
  const io = { env: { NO_COLOR: "1" }, stderr } as unknown as Io; // All it needs.
  showCalls(io, [{ id: "1", name: "act", args, why: "a rule asks" }]);
  return stderr.text();
}

describe("[G5] a call that is asked about", () => {
  it("hides no argument behind a command or a patch", () => {
    const patch = "*** Begin Patch\n*** End Patch";
    expect(shownOf({ command: "ls", host: "production" })).toBe('act (a rule asks)\n  ls\n  {"host":"production"}\n');
    expect(shownOf({ patch, command: "rm -rf build" })).toContain("rm -rf build");
    expect(shownOf({ input: patch, command: "rm -rf build" })).toContain("rm -rf build");
    expect(shownOf({ command: { of: "no text" }, input: "text" })).toContain("no text");
    expect(shownOf({ command: "ls" })).toBe("act (a rule asks)\n  ls\n");
  });

  it("hides no end behind blanks, and says where one is left out", () => {
    expect(shownOf({ query: `select 1${" ".repeat(20_000)}; drop table all_of_it` })).toMatch(/…\n$/);
    expect(oneLine(`a${" ".repeat(1_000)}b`, 20)).toBe("a …");
    expect(oneLine("a   b", 20)).toBe("a b");
  });

  it("says how long it is where its beginning may have scrolled away", () => {
    expect(shownOf({ command: `evil\n${"echo\n".repeat(100)}` })).toMatch(
      /\(102 lines in all; the first are above\)\n$/,
    );
  });
});

describe("[G5] a row that is drawn", () => {
  it("shows the name of a model without what steers a terminal", () => {
    const status = {
      ...UNKNOWN,
      agent: undefined,
      tools: "safe",
      isKept: true,
      model: "a\u001b]0;stolen\u0007\nb\u202ec",
    };
    const row = statusLine(status, 80, createPaint(output(), { NO_COLOR: "1" }));
    expect(row).toBe("a]0;stolen b‹U+202E›c · tools safe");
  });
});

describe("[G5] what is put into the line", () => {
  it("is no name of a file that shows as another one", async () => {
    const folder = await mkdtemp(join(tmpdir(), "rkat-names-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    for (const name of ["plain.txt", "p\u202etxt.exe", "p\u009bx"]) await writeFile(join(folder, name), "");
    expect(await completePath("p", folder)).toEqual(["plain.txt"]);
  });

  it("is of an earlier prompt only what was typed, no file and nothing a model wrote", async () => {
    const content = [
      { type: "text", text: "look at a.txt" },
      { type: "text", text: '<file name="a.txt">\nlong\n</file>' },
    ];
    const answers: Readonly<Record<string, unknown>> = {
      listSessions: {
        sessions: [
          { session_id: "1", message_count: 1 },
          { session_id: "2", message_count: 1, labels: { parent: "1", parent_call: "c", agent: "reviewer" } },
        ],
      },
      readHistory: { messages: [{ role: "user", content }] },
    };
    const opened = { isKept: true, runtime: { dispatch: async (name: string) => answers[name] } };
    expect(await readPastPrompts(opened as unknown as Opened)).toEqual(["look at a.txt"]); // All it needs.
  });
});
