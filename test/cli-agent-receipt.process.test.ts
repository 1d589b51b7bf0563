import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "./support/command-line.ts";
import { OFFLINE } from "./support/compacting-command-line.ts";
import { SMALL_WINDOWS } from "./support/remembering-command-line.ts";

const line = useCommandLine();
const agent = (words: readonly string[], input?: string) =>
  line.run(["agent", ...words], { env: OFFLINE, ...(input === undefined ? {} : { input }) });
const json = async (...words: string[]) => JSON.parse((await agent([...words, "--json"])).stdout);

describe("rkat agent receipt", () => {
  it("[E6] tells where every specific is, by memory, as text and as JSON; and of an agent without one that there is none", async () => {
    writeFileSync(join(line.cwd, "rkat.toml"), SMALL_WINDOWS);
    const seen = [1, 2, 3, 4, 5, 6].map((n) => `I saw ${n} herons at the pond.`);
    await agent(["remember", "Ada"], ["Never open /srv/gate.toml.", "Port 8443 is open.", ...seen].join("\n"));
    const text = await agent(["receipt", "Ada"]);
    expect({ code: text.code, stderr: text.stderr }).toEqual({ code: 0, stderr: "" });
    expect(text.stdout).toMatch(/^Compaction of Ada, seq \d+\n {3}when .*\n {3}why +due, with 7 memories\n/);
    expect(text.stdout).toMatch(/\n {3}quality +1: it has \d+ of the \d+ specifics of its sources\n/);
    expect(text.stdout).toMatch(/\nLong-term summary of memories 1 to 3 {2}extractive\n/);
    expect(text.stdout).toMatch(
      /\n {3}Nothing lost\..*\n {3}\d+ facts: \d+ in view \(\d+ in the summary\), \d+ recoverable, 0 lost\n/,
    );
    expect(text.stdout).toMatch(/\n +in view +memory 1 +\/srv\/gate\.toml\n/);
    const { seq, recent, longterm } = await json("receipt", "Ada");
    expect([recent.receipt.lost, longterm.receipt.lost]).toEqual([0, 0]);
    expect(await json("receipt", "Ada", "--seq", String(seq))).toMatchObject({ seq });
    expect((await agent(["history", "Ada"])).stdout).toMatch(/\n {3}Nothing lost\. .*\d+ facts: .* 0 lost\n/);
    const none = await agent(["receipt", "Bo"]);
    expect(none).toMatchObject({ code: 10, stdout: "", stderr: "Error: agent: agent Bo has no compaction yet\n" });
  });
});
