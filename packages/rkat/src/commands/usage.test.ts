import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";
import { costText } from "../io.ts";

const line = useCommandLine();
const { run } = line;
/** What the offline model would charge if it were sold: a cent for each token. */
const PRICED = "[prices.offline]\ninput = 10000\noutput = 10000\n";

describe("rkat usage", () => {
  it("[I7] [G5] tells what turns cost, in their footer, in lists and summed up", async () => {
    writeFileSync(join(line.cwd, "rkat.toml"), PRICED);
    const asked = await run(["run", "Hello.", "-m", "offline", "-t", "none", "--label", "team=a"]);
    expect(asked.stderr).toMatch(/\| Cost: \$\d+\.\d\d\]\n$/);
    expect((await run(["session", "list", "--cost"])).stdout).toMatch(/TOKENS +COST +STATE[\s\S]*\$0\.\d\d/);
    expect((await run(["session", "list"])).stdout).not.toContain("COST");
    expect((await run(["session", "show", "last"])).stdout).toMatch(/\ncost +\$0\.\d\d\n/);
    const { stdout } = await run(["usage", "--by", "label", "--since", "7d"]);
    expect(stdout).toMatch(
      /^LABEL +CALLS +INPUT +CACHED +OUTPUT +COST\nteam=a +1 .*\$0\.\d\d\ntotal +1 .*\$0\.\d\d\n$/,
    );
    const report = JSON.parse((await run(["usage", "--json"])).stdout);
    expect(report.total.usage.cost.amount).toBeCloseTo(
      (report.total.usage.input_tokens + report.total.usage.output_tokens) / 100,
      9,
    );
  });

  it("[I7] [G5] says that nothing was used, and refuses what is neither a duration nor a day", async () => {
    expect((await run(["usage"])).stdout).toBe("Nothing was used.\n");
    const refused = await run(["usage", "--since", "lately"]);
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining("since: write how far back, like 7d") });
  });

  it("[I7] limits what a turn may cost, and refuses a limit that is none", async () => {
    writeFileSync(join(line.cwd, "rkat.toml"), PRICED);
    const ended = await run(["run", "Hello.", "-m", "offline", "-t", "none", "--max-cost", "0.01"]);
    expect(ended.code).toBe(21);
    expect(ended.stderr).toMatch(/% of the cost budget is used: \$0\.\d\d of \$0\.01/);
    expect((await run(["run", "Hello.", "--max-cost", "much"])).stderr).toContain(
      "write an amount of US dollars above 0",
    );
  });

  it("[I7] shows prices with the models", async () => {
    expect((await run(["models"])).stdout).toMatch(/gpt-5\.5 .* \$5 \/ \$30\n/);
    const { providers } = JSON.parse((await run(["models", "--json"])).stdout);
    const models = providers.flatMap((one: { models: unknown[] }) => one.models);
    expect(models.find(({ id }: { id: string }) => id === "gpt-5.5").prices).toMatchObject({
      currency: "USD",
      input: 5,
      cached_input: 0.5,
      output: 30,
      as_of: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
      source: expect.stringMatching(/^https:/),
    });
  });
});

describe("an amount in words", () => {
  it.each([
    [undefined, "?"],
    [{ amount: 0 }, "$0.00"],
    [{ amount: 1.2 }, "$1.20"],
    [{ amount: 0.01 }, "$0.01"],
    [{ amount: 0.001_34 }, "$0.0013"],
    [{ amount: 0.000_000_002 }, "$0.0000000020"],
    [{ amount: 12.5, partial: true as const }, "≥ $12.50"],
  ])("[I7] of %o is %s", (cost, text) => expect(costText(cost)).toBe(text));
});
