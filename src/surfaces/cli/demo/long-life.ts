import { grouped, oneLine } from "../plain-text.ts";
import type { Scene } from "./stage.ts";

const NAME = "ada";
const DAYS = 200;
const FIRST_DAY = "On my first day Mara gave me the brass key to the north greenhouse.";
const BEGINNING_CHARS_MAX = 24;

/** An agent that has lived long enough for three tiers, before and after a restart. */
export const longLife: Scene = {
  title: "An agent that remembers for months",
  story: `${NAME} is given ${DAYS} memories. The newest are kept word for word, those before in a summary, the oldest in another. Then everything is closed and opened again.`,
  play: async ({ openKept, table, claim }) => {
    const young = await openKept();
    const agent = young.agent(NAME);
    await agent.remember(FIRST_DAY);
    for (let day = 2; day <= DAYS; day += 1) {
      await agent.remember(`Day ${day}: I watered row ${day % 12} and saw ${day % 7} herons.`);
    }
    await young.close();
    const old = (await openKept()).agent(NAME);
    const { count, longterm_range: oldest, recent_range: recent } = await old.status();
    const { immediate, longterm_summary = "", recent_summary = "" } = await old.context();
    const [first] = immediate;
    const last = immediate.at(-1);
    const row = (tier: string, from: number | undefined, to: number | undefined, summary?: string) => ({
      tier,
      memories: `${from ?? "?"} to ${to ?? "?"}`,
      kept: summary === undefined ? "word for word" : `a summary, ${grouped(summary.length)} characters`,
      "begins with": oneLine(summary ?? first?.content ?? "", BEGINNING_CHARS_MAX),
    });
    await table([
      row("immediate", first?.seq, last?.seq),
      row("short-term", recent?.from_seq, recent?.to_seq, recent_summary),
      row("long-term", oldest?.from_seq, oldest?.to_seq, longterm_summary),
    ]);
    const meets = (end: number | undefined, begin: number | undefined) => begin === (end ?? Number.NaN) + 1;
    await claim(`all ${DAYS} memories are there after the restart`, count === DAYS && last?.seq === DAYS);
    await claim(
      "each is in one tier, and none in no tier",
      oldest?.from_seq === 1 && meets(oldest.to_seq, recent?.from_seq) && meets(recent?.to_seq, first?.seq),
    );
    await claim("the first day is not forgotten", longterm_summary.includes(FIRST_DAY));
  },
};
