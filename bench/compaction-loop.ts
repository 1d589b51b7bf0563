// How long a compaction keeps everybody else waiting: the longest round of the event loop and the CPU, for contexts of
// ordinary talk and for single messages made to be slow.
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Message } from "../src/contract/message.ts";
import { runCompaction } from "../src/core/compaction/run-compaction.ts";
import { createScriptedModel } from "../src/providers/scripted.ts";
import { createSystemClock } from "../src/service/system-clock.ts";
import { tileHistory } from "./compaction-history.ts";
import { askingFor, composeFor, cpuMs, foldHistory } from "./compaction-stage.ts";
import { publish } from "./report.ts";

const BLOCK_MS_MAX = 50;
const SUMMARY = "The user pasted a file and asked for 7443 and `heron`. Nothing was decided.";
const csv = Array.from({ length: 30_000 }, (_, row) => `${row},name${row},${row * 3.1},2026-01-05`).join("\n");
const talk = (content: string): readonly Message[] =>
  Array.from({ length: 12 }, (_, at): Message => {
    const created_at = "2026-01-05T10:30:00.000Z";
    if (at % 2 === 0) return { role: "user", content: at === 0 ? content : `Go on with part ${at}.`, created_at };
    return {
      role: "block_assistant",
      blocks: [{ block_type: "text", data: { text: "Done." } }],
      stop_reason: "end_turn",
      created_at,
    };
  });

const CASES: Readonly<Record<string, () => { messages: readonly Message[]; summary: string }>> = {
  "100k tokens": () => tileHistory({ tokens: 100_000 }),
  "1M tokens": () => tileHistory({ tokens: 1_000_000 }),
  "blanks, 1 MB": () => ({ messages: talk(" ".repeat(1_000_000)), summary: SUMMARY }),
  "CSV, 600 kB": () => ({ messages: talk(csv.slice(0, 600_000)), summary: SUMMARY }),
  "1,1,1, 1 MB": () => ({ messages: talk("1,".repeat(500_000)), summary: SUMMARY }),
};

const measured = [];
for (const [name, make] of Object.entries(CASES)) {
  const { messages, summary } = make();
  const { state, append } = await foldHistory(messages);
  const model = createScriptedModel(() => ({ text: summary }), { contextWindow: state.shownTokens * 2 });
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const before = cpuMs();
  delay.enable();
  const asking = { ...askingFor(model, append), clock: createSystemClock() };
  const compacting = composeFor({}, model.contextWindow);
  const outcome = await runCompaction({ state, compacting, asking, trigger: "manual", append });
  delay.disable();
  measured.push({ name, compacted: outcome.compacted, cpuMs: cpuMs() - before, blockMs: delay.max / 1e6 });
}
await publish({
  name: "compaction-loop",
  tables: [
    [
      ["one compaction", "CPU ms", "longest block, ms"],
      ...measured.map(({ name, cpuMs: ms, blockMs }) => [name, ms.toFixed(0), blockMs.toFixed(1)]),
    ],
  ],
  targets: [
    {
      what: "longest block of the event loop, ms",
      value: Math.max(...measured.map((one) => one.blockMs)),
      max: BLOCK_MS_MAX,
    },
    { what: "not compacted", value: measured.filter(({ compacted }) => !compacted).length, max: 0 },
  ],
  measured,
});
