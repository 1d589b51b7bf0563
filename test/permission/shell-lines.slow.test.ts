import { readFileSync } from "node:fs";
import { join } from "node:path";
import { getuid } from "node:process";
import { createPolicy, judgeCall } from "@rkat/core/permission/judge";
import { afterAll, describe, expect, it } from "vitest";
import { openRealShell } from "./real-shell.ts";

const LIST =
  "git status *,git diff *,ls *,cat *,grep *,head *,tail *,wc *,sort *,npm test,npm run test *,mkdir *".split(",");

/** Rules, and the program that a line may not start under them. */
const RULES = {
  deny: { rules: { allow: ["shell"], deny: ["shell(evil *)"] }, denied: "evil" },
  list: { rules: { allow: [...LIST.map((one) => `shell(${one})`), "apply_patch(out/**)"] }, denied: "evil" },
  push: { rules: { allow: ["shell"], deny: ["shell(git push *)"] }, denied: "push" },
  rm: { rules: { allow: ["shell"], deny: ["shell(rm *)"] }, denied: "rm" },
} as const;
const SHELLS = ["bash", "dash"] as const;

interface Line {
  readonly text: string;
  readonly under: keyof typeof RULES;
  /** Whether it must be stopped, since it starts what is denied. */
  readonly isHostile: boolean;
  /** The shells in which a hostile one starts it. */
  readonly shells: readonly (typeof SHELLS)[number][];
  /** Programs, or the user, without which it cannot be shown. */
  readonly needs: readonly string[];
}

function linesOf(file: string): readonly Line[] {
  const text = readFileSync(join(import.meta.dirname, file), "utf8").replace(/\n$/, "");
  return text.split("\n---\n").map((record) => {
    const [head = "", ...rest] = record.split("\n");
    const [under = "", verdict, ...marks] = head.split(" ");
    const only = SHELLS.filter((shell) => marks.includes(shell));
    return {
      text: rest.join("\n"),
      under: under as keyof typeof RULES, // The test of the counts fails for a name that is none.
      isHostile: verdict === "stop",
      shells: only.length === 0 ? SHELLS : only,
      needs: marks.filter((mark) => !only.some((shell) => shell === mark)),
    };
  });
}

const real = openRealShell({ hasEvil: true });
afterAll(() => real.close());

const canShow = ({ needs }: Line): boolean =>
  needs.every((what) => (what === "root" ? getuid?.() === 0 : real.has(what)));

describe.each(["shell-lines.txt", "shell-lines-held-back.txt"])("a command line of %s", (file) => {
  const lines = linesOf(file);
  const judged = ({ text, under }: Line): string =>
    judgeCall(
      createPolicy([{ from: "user", rules: RULES[under].rules }], () => "ask"),
      { tool: "shell", args: { command: text }, root: "/project" },
    ).verdict;
  const shown = (wrong: readonly Line[]) => wrong.map(({ under, text }) => `${under}: ${text}`);

  it("[I1] is stopped where it starts what is denied", () => {
    expect(shown(lines.filter((line) => line.isHostile && judged(line) === "allow"))).toEqual([]);
  });

  it("[I1] is not disturbed where it starts nothing that is denied", () => {
    expect(shown(lines.filter((line) => !line.isHostile && judged(line) !== "allow"))).toEqual([]);
  });

  it("[I1] starts in real shells what is said of it, and nothing else", { timeout: 600_000 }, () => {
    const wrong = lines.filter((line) => {
      if (!canShow(line)) return false;
      return (line.isHostile ? line.shells : SHELLS).some(
        (shell) => real.run(line.text, shell).programs.includes(RULES[line.under].denied) !== line.isHostile,
      );
    });
    expect(shown(wrong)).toEqual([]);
  });

  it("[I1] is one of two hundred, half of them hostile", () => {
    expect(lines.filter(({ under }) => under in RULES).length).toBe(200);
    expect(lines.filter(({ isHostile }) => isHostile).length).toBe(100);
    // Where the lines must be shown, every program they need is there.
    expect(process.env.CI === undefined ? [] : lines.filter((line) => !canShow(line))).toEqual([]);
  });
});
