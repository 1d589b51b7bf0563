// What compacting costs: deciding at every boundary, one compaction without its model, what receipts and groundedness
// say of the corpus, and a long session from end to end.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createOfflineModel } from "@rkat/core/providers/offline/offline";
import { labellingModel, measureUnseen, type UnseenReading } from "../test/support/unseen-sentences.ts";
import { addKept, type CorpusReading, type Kept, measureCorpus } from "./compaction-corpus.ts";
import { type Deciding, measureDeciding } from "./compaction-deciding.ts";
import { type Reading, STEPS } from "./compaction-once.ts";
import { measureSessions, type TurnsReading } from "./compaction-session.ts";
import { askingFor } from "./compaction-stage.ts";
import { median, publish } from "./report.ts";

type Table = readonly (readonly string[])[];

const SIZES = [
  { tokens: 100_000, runs: 5, rounds: 4 },
  { tokens: 1_000_000, runs: 1, rounds: 3 },
];

const deciding = await measureDeciding();
const corpus = await measureCorpus();
const quietly = (model: Parameters<typeof askingFor>[0]) => askingFor(model, async () => {});
const unseen = {
  "no judge": await measureUnseen(quietly),
  "the offline model": await measureUnseen(quietly, createOfflineModel()),
  "a judge that knows": await measureUnseen(quietly, labellingModel()),
};
const sessions = await measureSessions();
const once = [];
for (const size of SIZES) once.push(await measureSize(size));

const sum = sumOf(corpus);
await publish({
  name: "compaction",
  tables: [
    decidingTable(deciding),
    onceTable(once),
    stepsTable(once),
    keptTable(corpus, sum),
    groundednessTable(corpus, sum),
    unseenTable(unseen),
    sessionTable(sessions),
  ],
  targets: [
    ...deciding.map((reading) => ({
      what: `deciding, turn ${reading.late.turn} over turn ${reading.early.turn}, ${reading.session}`,
      value: growthOf(reading),
      max: 1.3,
    })),
    { what: "CPU of a token compacted, 1M over 100k tokens", value: growthPerToken(once), max: 1.3 },
    { what: "specifics lost, extractive and honest summaries", value: sum.extractive.lost + sum.honest.lost, max: 0 },
    { what: "honest summaries cut", value: sum.falseCuts, max: 0 },
    { what: "planted inventions neither cut nor listed", value: sum.planted - sum.caught - sum.listed, max: 0 },
    { what: "honest sentences nobody tuned on, cut", value: unseen["no judge"].honest.cut, max: 0 },
  ],
  measured: { deciding, once, corpus, unseen, sessions },
});

interface Once extends Reading {
  /** The most memory over that of a process that only has the history. */
  readonly moreMb: number;
}

/** Medians of some processes: one only builds the history, one compacts once, one compacts until it is warm. */
async function measureSize({ tokens, runs, rounds }: (typeof SIZES)[number]): Promise<Once> {
  const readings: Once[] = [];
  for (let run = 0; run < runs; run += 1) {
    const built = await inProcess(tokens, 0);
    const first = await inProcess(tokens, 1);
    const warm = await inProcess(tokens, rounds);
    readings.push({ ...warm, coldMs: first.coldMs, peakMb: first.peakMb, moreMb: first.peakMb - built.peakMb });
  }
  const [one] = readings;
  if (one === undefined) throw new Error("nothing was measured");
  const middle = (of: (reading: Once) => number): number => median(readings.map(of));
  return {
    ...one,
    coldMs: middle(({ coldMs }) => coldMs),
    warmMs: middle(({ warmMs }) => warmMs),
    floorMs: middle(({ floorMs }) => floorMs),
    peakMb: middle(({ peakMb }) => peakMb),
    moreMb: middle(({ moreMb }) => moreMb),
    // The keys are the steps.
    steps: Object.fromEntries(STEPS.map((step) => [step, middle(({ steps }) => steps[step])])) as Once["steps"],
  };
}

async function inProcess(tokens: number, rounds: number): Promise<Reading> {
  const args = ["--expose-gc", join(import.meta.dirname, "compaction-once.ts"), String(tokens), String(rounds)];
  let text = "";
  for await (const chunk of spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] }).stdout)
    text += chunk;
  return JSON.parse(text);
}

function growthOf({ early, late }: Deciding): number {
  return late.decideUs / early.decideUs;
}

function growthPerToken(readings: readonly Once[]): number {
  const [small, large] = readings.map(({ warmMs, tokens }) => warmMs / tokens);
  return (large ?? Number.NaN) / (small ?? Number.NaN);
}

function decidingTable(readings: readonly Deciding[]): Table {
  const rows = readings.map((reading) => {
    const { session, compactions, early, late } = reading;
    return [
      session,
      String(compactions),
      early.messages.toFixed(0),
      late.messages.toFixed(0),
      early.decideUs.toFixed(2),
      late.decideUs.toFixed(2),
      `${((100 * late.foldUs) / late.decideUs).toFixed(0)} %`,
      growthOf(reading).toFixed(2),
    ];
  });
  const [{ early, late } = { early: { turn: 0 }, late: { turn: 0 } }] = readings;
  const around = (what: string): string[] => [`${what}, turn ${early.turn}`, `turn ${late.turn}`];
  return [
    ["deciding at a boundary", "compactions", ...around("messages"), ...around("µs"), "folding ahead", "growth"],
    ...rows,
  ];
}

function onceTable(readings: readonly Once[]): Table {
  const rows = readings.map((reading) => [
    `${reading.tokens} tokens, ${reading.specifics} specifics`,
    reading.floorMs.toFixed(1),
    reading.coldMs.toFixed(0),
    reading.warmMs.toFixed(0),
    (reading.warmMs / reading.floorMs).toFixed(0),
    reading.moreMb.toFixed(0),
    reading.peakMb.toFixed(0),
  ]);
  const heading = ["one compaction, without the model", "JSON there and back, ms", "first, CPU ms", "later, CPU ms"];
  return [[...heading, "later / JSON", "MB more than the history", "peak MB"], ...rows];
}

function stepsTable(readings: readonly Once[]): Table {
  const rows = STEPS.map((step) => [
    step,
    ...readings.flatMap(({ steps, warmMs }) => [
      steps[step].toFixed(1),
      `${((100 * steps[step]) / warmMs).toFixed(0)} %`,
    ]),
  ]);
  const heading = readings.flatMap(({ tokens }) => [`${Math.round(tokens / 1_000)}k tokens, CPU ms`, "share"]);
  return [["step of a later compaction", ...heading], ...rows];
}

function sumOf(readings: readonly CorpusReading[]): CorpusReading {
  return readings.reduce((a, b) => ({
    name: "all",
    extractive: addKept(a.extractive, b.extractive),
    honest: addKept(a.honest, b.honest),
    honestSummaries: a.honestSummaries + b.honestSummaries,
    falseCuts: a.falseCuts + b.falseCuts,
    planted: a.planted + b.planted,
    caught: a.caught + b.caught,
    listed: a.listed + b.listed,
    innocentCuts: a.innocentCuts + b.innocentCuts,
  }));
}

function keptTable(readings: readonly CorpusReading[], all: CorpusReading): Table {
  const rowOf = (name: string, { total, in_summary, in_tail, recoverable, lost }: Kept): string[] => [
    name,
    String(total),
    ...[in_summary, in_tail, recoverable, lost].map(
      (count) => `${count} (${((100 * count) / Math.max(1, total)).toFixed(0)} %)`,
    ),
  ];
  const rows = [...readings, all].flatMap(({ name, extractive, honest, honestSummaries }) => [
    rowOf(`${name}, extractive`, extractive),
    rowOf(`${name}, ${honestSummaries} honest`, honest),
  ]);
  return [["specifics after a compaction", "total", "in summary", "in tail", "recoverable", "lost"], ...rows];
}

function groundednessTable(readings: readonly CorpusReading[], all: CorpusReading): Table {
  const rows = [...readings, all].map((reading) => [
    reading.name,
    String(reading.honestSummaries),
    String(reading.falseCuts),
    String(reading.planted),
    `${reading.caught} (${((100 * reading.caught) / Math.max(1, reading.planted)).toFixed(0)} %)`,
    String(reading.listed),
    String(reading.innocentCuts),
  ]);
  return [
    ["groundedness", "honest summaries", "cut", "planted", "caught", "listed", "innocent sentences cut"],
    ...rows,
  ];
}

function unseenTable(readings: Readonly<Record<string, UnseenReading>>): Table {
  const rows = Object.entries(readings).map(([judge, { honest, invented }]) => [
    judge,
    ...[honest, invented].flatMap(({ sentences, cut, unverified }) => [`${cut} of ${sentences}`, String(unverified)]),
  ]);
  return [["sentences nobody tuned on", "honest cut", "unverified", "invented cut", "unverified"], ...rows];
}

function sessionTable(windows: readonly TurnsReading[]): Table {
  const rows = windows.map(({ from, to, cpuMs, compactions, plainMs, compactingMs }) => [
    `turns ${from} to ${to}`,
    cpuMs.toFixed(2),
    String(compactions),
    plainMs.toFixed(2),
    compactingMs.toFixed(1),
  ]);
  const [first, last] = [windows[0], windows.at(-1)];
  const ratio = (figure: keyof TurnsReading): string =>
    ((last?.[figure] ?? Number.NaN) / (first?.[figure] ?? Number.NaN)).toFixed(2);
  return [
    ["a session that compacts, CPU", "ms/turn", "compactions", "ms, turn without one", "ms, turn with one"],
    ...rows,
    ["late over early", ratio("cpuMs"), ratio("compactions"), ratio("plainMs"), ratio("compactingMs")],
  ];
}
