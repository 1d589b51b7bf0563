import { COMMANDS, openCommands, TURNS } from "./commands.ts";
import { type Contender, runJob } from "./contenders.ts";
import type { Figures } from "./result.ts";

const WINDOW_TOKENS = 64_000;

/** A conversation that outgrows the window, with a model that forgets what it is not shown. */
export async function measureCompaction(contenders: readonly Contender[]): Promise<Figures> {
  const commands = await openCommands();
  const rows: (readonly string[])[] = [];
  const missing: Figures["missing"][number][] = [];
  for (const contender of contenders.filter(({ keeps }) => !keeps)) {
    if (contender.compacts === undefined) {
      missing.push([contender.title, contender.compactsNot ?? "it has nothing that makes a context smaller"]);
      continue;
    }
    const end = commands.begin();
    const job = { baseUrl: `${commands.url}/v1`, sessions: 1, turns: TURNS, warmUps: 0 };
    try {
      await runJob(contender, { ...job, commands: { address: commands.url, windowTokens: WINDOW_TOKENS } });
    } catch (error) {
      missing.push([contender.title, String(error)]);
      continue;
    }
    const { runs, summaries, waited, largestTokens, sentTokens, newTokens, factsLeft } = end();
    const all = [...runs.values()].reduce((sum, count) => sum + count, 0);
    const thousands = (tokens: number): string => (tokens / 1_000).toFixed(0);
    rows.push([
      contender.title,
      contender.compacts,
      thousands(largestTokens),
      thousands(sentTokens),
      thousands(newTokens),
      String(summaries),
      String(waited),
      `${factsLeft} of ${TURNS}`,
      String(all - runs.size),
      `${COMMANDS - runs.size} of ${COMMANDS}`,
    ]);
  }
  await commands.close();
  return {
    name: "compaction",
    title: `${TURNS} turns with a model that sees ${WINDOW_TOKENS / 1_000}k tokens`,
    text:
      `An agent has ${COMMANDS} commands to run, one a turn, each with 6 kB of output; the user says one fact a turn. It runs the first command ` +
      "that it does not see in its context, and names every second one when it answers. Who asks for a summary gets one that has every second " +
      "thing that is shown to it. Each is set to compact below the window as its own guide says. Tokens are those of the messages, at 4 " +
      "characters; new ones are not the beginning of the request before, so no provider has them in its cache. A summary is waited for if " +
      "no call of the agent went on beside half of it. Facts are counted in the last request; what can be searched for is not counted.",
    columns: [
      "",
      "by",
      "largest request, 1000 tokens",
      "sent, 1000 tokens",
      "of these new",
      "summaries",
      "waited for",
      "facts left",
      "commands run again",
      "never run",
    ],
    rows,
    missing,
  };
}
