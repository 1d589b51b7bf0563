// How long a compaction keeps everybody else waiting and what reading all that was said takes: the longest round of the
// event loop, CPU of all threads and memory, each context in a process of its own. With a name: only that, as JSON.
import { spawn } from "node:child_process";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { runCompaction } from "@rkat/core/compaction/run-compaction";
import type { Message } from "@rkat/core/contract/message";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { tileHistory } from "./compaction-history.ts";
import { askingFor, composeFor, cpuMs, foldHistory } from "./compaction-stage.ts";
import { median, publish } from "./report.ts";

const BLOCK_MS_MAX = 50;
const CPU_MS_PER_100K_MAX = 250;
const GROWTH_MAX = 1.3;
const FLOOR_ROUNDS = 9;
const SUMMARY = "The user pasted a file and asked for 7443 and `heron`. Nothing was decided.";
const CHARS_PER_TOKEN = 4;
const SIZES = [100_000, 300_000, 1_000_000];

const talk = (content: string): { messages: readonly Message[]; summary: string } => ({
  summary: SUMMARY,
  messages: Array.from({ length: 12 }, (_, at): Message => {
    const created_at = "2026-01-05T10:30:00.000Z";
    if (at % 2 === 0) return { role: "user", content: at === 0 ? content : `Go on with part ${at}.`, created_at };
    return {
      role: "block_assistant",
      blocks: [{ block_type: "text", data: { text: "Done." } }],
      stop_reason: "end_turn",
      created_at,
    };
  }),
});

/** Lines up to a number of characters. */
function linesOf(chars: number, lineOf: (row: number) => string): string {
  const lines: string[] = [];
  for (let [row, left] = [0, chars]; left > 0; row += 1) {
    const line = lineOf(row);
    lines.push(line);
    left -= line.length + 1;
  }
  return lines.join("\n");
}

const csv = (row: number): string => `${row},name${row},${(row * 3.1).toFixed(2)},2026-01-${(row % 28) + 1}`;
const code = (row: number): string =>
  `  const total${row} = await readRows(store.part${row % 97}, { limit: ${row * 7}, file: "src/rows/r${row}.ts" });`;

type Make = () => { messages: readonly Message[]; summary: string };
const KINDS: Readonly<Record<string, (tokens: number) => ReturnType<Make>>> = {
  talk: (tokens) => tileHistory({ tokens }),
  CSV: (tokens) => talk(linesOf(tokens * CHARS_PER_TOKEN, csv)),
  code: (tokens) => talk(linesOf(tokens * CHARS_PER_TOKEN, code)),
};
const CASES = new Map<string, Make>([
  ...Object.entries(KINDS).flatMap(([kind, make]) =>
    SIZES.map((tokens) => [`${kind}, ${tokens / 1_000}k tokens`, () => make(tokens)] as const),
  ),
  ["blanks, 1 MB", () => talk(" ".repeat(1_000_000))],
  ["1,1,1, 1 MB", () => talk("1,".repeat(500_000))],
  ["one line of 5 MB", () => talk("the heron 7443 flew, ".repeat(240_000))],
  ["marks nobody sees, 1 MB", () => talk("he\u200bron\u0301 👩‍👩‍👧 ".repeat(70_000))],
]);

interface LoopReading {
  readonly name: string;
  readonly tokens: number;
  readonly compacted: boolean;
  /** Of the whole compaction but its model, all threads. */
  readonly cpuMs: number;
  readonly blockMs: number;
  /** JSON.stringify and JSON.parse of the same messages. */
  readonly floorMs: number;
  readonly specifics: number;
  readonly peakMb: number;
}

const [asked] = process.argv.slice(2);
if (asked === undefined) await measureAll();
else console.log(JSON.stringify(await measure(asked)));

async function measure(name: string): Promise<LoopReading> {
  const { messages, summary } = CASES.get(name)?.() ?? talk("");
  // The first one compiles; sessions have others after it.
  await compact(messages, summary);
  const reading = await compact(messages, summary);
  const floors = Array.from({ length: FLOOR_ROUNDS }, () => {
    const startedMs = cpuMs();
    JSON.parse(JSON.stringify(messages));
    return cpuMs() - startedMs;
  });
  return { name, ...reading, floorMs: median(floors), peakMb: process.resourceUsage().maxRSS / 1_024 };
}

async function compact(messages: readonly Message[], summary: string) {
  const { state, append } = await foldHistory(messages);
  const tokens = state.shownTokens;
  const model = createScriptedModel(() => ({ text: summary }), { contextWindow: tokens * 2 });
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const before = cpuMs();
  delay.enable();
  const asking = { ...askingFor(model, append), clock: createSystemClock() };
  const compacting = composeFor({}, model.contextWindow);
  const outcome = await runCompaction({ state, compacting, asking, trigger: "manual", append });
  delay.disable();
  const specifics = state.compactions.at(-1)?.body.receipt.total ?? 0;
  return { tokens, compacted: outcome.compacted, cpuMs: cpuMs() - before, blockMs: delay.max / 1e6, specifics };
}

async function measureAll(): Promise<void> {
  const measured: LoopReading[] = [];
  for (const name of CASES.keys()) measured.push(await inProcess(name));
  const per100k = ({ cpuMs: ms, tokens }: LoopReading): number => (ms * 100_000) / tokens;
  const named = (name: string): number => per100k(measured.find((one) => one.name === name) ?? nothingMeasured());
  await publish({
    name: "compaction-loop",
    tables: [
      [
        [
          "one compaction, without the model",
          "specifics",
          "CPU ms",
          "ms a 100k tokens",
          "over JSON",
          "longest block, ms",
          "peak MB",
        ],
        ...measured.map((one) => [
          one.name,
          String(one.specifics),
          one.cpuMs.toFixed(0),
          per100k(one).toFixed(0),
          (one.cpuMs / one.floorMs).toFixed(0),
          one.blockMs.toFixed(1),
          one.peakMb.toFixed(0),
        ]),
      ],
    ],
    targets: [
      {
        what: "longest block of the event loop, ms",
        value: Math.max(...measured.map((one) => one.blockMs)),
        max: BLOCK_MS_MAX,
      },
      { what: "CPU ms of 100k tokens of talk", value: named("talk, 100k tokens"), max: CPU_MS_PER_100K_MAX },
      ...Object.keys(KINDS).map((kind) => ({
        what: `CPU of a token, 1M over 100k tokens of ${kind}`,
        value: named(`${kind}, 1000k tokens`) / named(`${kind}, 100k tokens`),
        max: GROWTH_MAX,
      })),
      { what: "not compacted", value: measured.filter(({ compacted }) => !compacted).length, max: 0 },
    ],
    measured,
  });
}

function nothingMeasured(): never {
  throw new Error("nothing was measured");
}

async function inProcess(name: string): Promise<LoopReading> {
  let text = "";
  const child = spawn(process.execPath, [import.meta.filename, name], { stdio: ["ignore", "pipe", "inherit"] });
  for await (const chunk of child.stdout) text += chunk;
  return JSON.parse(text);
}
