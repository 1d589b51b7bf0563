import { OPERATIONS, type OperationName } from "@rkat/core/contract/operations";
import { Command } from "commander";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../../../test/support/command-line.ts";
import { fieldFlags, fieldOptions, fieldsOf } from "./flags.ts";

const { run } = useCommandLine();
const names = Object.keys(OPERATIONS) as OperationName[]; // The keys of OPERATIONS are the names of operations.

function readAs(name: OperationName, words: string) {
  const command = new Command().exitOverride().configureOutput({ writeErr: () => {} });
  for (const option of fieldOptions(name)) command.addOption(option);
  return fieldsOf(name, command.parse(words.split(" "), { from: "user" }).opts());
}

describe("the flags of fields", () => {
  it.each(names)("[G5] of %s are flags of its command, explained", async (name) => {
    const words = OPERATIONS[name].cli.split(" ").filter((word) => /^[a-z]+$/.test(word));
    const { stdout } = await run([...words.slice(1), "--help"]);
    for (const { option } of fieldFlags(name)) expect(stdout).toContain(`  ${option.flags}  `);
  });

  it("[G5] are read as their schemas say, and stand in the input where the field does", () => {
    const read = (words: string) => readAs("createSession", words);
    expect(
      read("--max-turns 3 --max-tokens 9_000 -d 30s --label a=b=c --label d=e --app-context null --memory"),
    ).toEqual({
      max_turns: 3,
      budget_limits: { max_tokens: 9_000, max_duration: "30s" },
      labels: { a: "b=c", d: "e" },
      app_context: null,
      enable_memory: true,
    });
    for (const wrong of ["--max-turns 0", "-d soon", "-t everything", "--label a", "--params-json []"])
      expect(() => read(wrong)).toThrow(/^error: option .* is invalid\. /);
  });

  it("[G5] [Q2] [Q3] take a moment, a duration and an amount each in its own way", () => {
    const at = "2030-01-01T00:00:00Z";
    expect(readAs("createSchedule", `--at ${at} --every 30m`)).toMatchObject({ at, every: "30m" });
    expect(readAs("startTurn", "--until true --goal-cost 0.5 --goal-time 1h")).toMatchObject({
      goal: { until: { command: "true" }, max_cost: 0.5, max_duration: "1h" },
    });
  });
});
