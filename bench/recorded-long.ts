import { createChance } from "./recorded-tools.ts";
import { record, type ScriptedTurn } from "./recording.ts";

const MINUTE_MS = 60_000;
const TURNS = 80;
const CALLS = 6;
const LINES = 190;
/** What the user pastes stays in the context until it is summarised. */
const PASTED_LINES = 600;

/** Records a day of work with a model of a million tokens, whose outputs fill that window. */
export async function recordLongWork(folder: string): Promise<void> {
  const chance = createChance(7);
  const words = ["heron", "reed", "otter", "ledger", "valve", "margin", "pier", "quarry", "signal", "tally"] as const;
  const line = (): string =>
    `${chance.whole(1_000, 9_999)} ${chance.pick(words)} ${chance.pick(words)} ${chance.pick(words)} took ${chance.whole(1, 900)} ms`;
  const turns = Array.from({ length: TURNS }, (_, turn): ScriptedTurn => {
    const steps = Array.from({ length: CALLS }, (_, at) => () => ({
      say: `Shard ${turn}-${at} is next.`,
      calls: [{ name: "read_shard", args: { shard: `${turn}-${at}` } }],
    }));
    return {
      // Some pauses outlast the provider's cache.
      pauseMs: turn % 5 === 4 ? 20 * MINUTE_MS : MINUTE_MS,
      prompt: [
        `Look at the shards ${turn}-0 to ${turn}-${CALLS - 1} and say which is slowest. This was seen before:`,
        ...Array.from({ length: PASTED_LINES }, line),
      ].join("\n"),
      steps: [...steps, () => ({ say: `The slowest shard of ${turn} is ${turn}-${turn % CALLS}.` })],
    };
  });
  await record(
    {
      name: "million",
      provider: "anthropic",
      model: "claude-sonnet-5-5",
      systemPrompt: "You look for slow shards. Say exactly what you read.",
      startedAt: "2026-02-02T08:00:00Z",
      tools: [
        {
          name: "read_shard",
          description: "Reads the log of a shard.",
          inputSchema: { type: "object", properties: { shard: { type: "string" } }, required: ["shard"] },
          execute: ({ shard }) => [`shard ${shard}`, ...Array.from({ length: LINES }, line)].join("\n"),
        },
      ],
      turns,
    },
    folder,
  );
}
