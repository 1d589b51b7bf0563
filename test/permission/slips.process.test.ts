import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createPolicy, judgeCall } from "@rkat/core/permission/judge";
import { afterAll, describe, expect, it } from "vitest";
import { openRealShell } from "./real-shell.ts";

interface Slip {
  readonly line: string;
  /** Lines whose program this machine may not have, or that depend on it, are judged and not run. */
  readonly isRun: boolean;
}

function slipsOf(file: string): readonly Slip[] {
  const text = readFileSync(join(import.meta.dirname, file), "utf8");
  return text
    .replace(/\n$/, "")
    .split("\n---\n")
    .map((line) => (line.endsWith(" #?") ? { line: line.slice(0, -3), isRun: false } : { line, isRun: true }));
}

const WRAPPERS =
  "bash sh dash env nice nohup timeout stdbuf setsid xargs find sudo command builtin exec eval trap".split(" ");
const BUILTINS = "printf read test [ declare export set unset let hash source . alias shopt mapfile cd f :".split(" ");
const shells = (names: readonly string[]) => names.map((name) => `shell(${name} *)`);

/** Each would let a line through that it takes for something else: `rm`, and a write to `victim`, are never allowed. */
const POLICIES = {
  "a few programs allowed": { allow: shells(["git", "ls", "cat", "echo", "true", "false", "tee", "head"]) },
  "wrappers and builtins allowed as well": { allow: shells(["git", "ls", "cat", "echo", ...WRAPPERS, ...BUILTINS]) },
  "everything but rm and files": { allow: ["shell"], deny: ["shell(rm *)", "apply_patch"] },
};

const real = openRealShell();
afterAll(() => real.close());

describe.each(["slips.txt", "slips-held-back.txt"])("a command line of %s that hides what it does", (file) => {
  const slips = slipsOf(file);

  it.each(Object.entries(POLICIES))("[I1] is not taken for another: %s", (_name, rules) => {
    const policy = createPolicy([{ from: "user", rules }], () => "ask");
    const slipped = slips.filter(({ line }) => {
      const call = { tool: "shell", args: { command: line }, root: "/project" };
      return judgeCall(policy, call).verdict === "allow";
    });
    expect(slipped.map(({ line }) => line)).toEqual([]);
  });

  it("[I1] does in a real shell what it is suspected of", { timeout: 240_000 }, () => {
    const harmless = slips.filter(({ line, isRun }) => {
      if (!isRun) return false;
      const { programs, isWritten } = real.run(line);
      return !programs.includes("rm") && !isWritten;
    });
    expect(harmless.map(({ line }) => line)).toEqual([]);
  });
});

it("[I1] there are more than two hundred of them, and fifty that were written before the code and held back", () => {
  expect(slipsOf("slips.txt").length).toBeGreaterThan(200);
  expect(slipsOf("slips-held-back.txt").length).toBeGreaterThanOrEqual(50);
});
