import type { Target } from "./measured.ts";
import type { Bandwidth } from "./memory-store-bandwidth.ts";
import type { StoredBytes } from "./memory-store-bytes.ts";
import type { Opened } from "./memory-store-open-once.ts";
import { formatSize } from "./memory-store-sizes.ts";
import { formatSpread } from "./memory-store-stopwatch.ts";
import type { IndexCost } from "./recall-index-cost.ts";
import type { QueryCost, Way } from "./recall-query-cost.ts";
import { type TurnCost, turnTable } from "./recall-turn-cost.ts";
import type { Report } from "./report.ts";

export interface SizeCost {
  readonly size: number;
  /** From the size before, the making of texts and vectors among it. */
  readonly buildMs: number;
  readonly queries: Readonly<Record<Way, QueryCost>>;
  readonly bytes: StoredBytes;
  readonly opened: Opened;
}

export interface Costs {
  readonly sizes: readonly SizeCost[];
  readonly bandwidth: Bandwidth;
  readonly indexing: IndexCost;
  readonly turns: readonly TurnCost[];
  /** Of the machine, which others share: beside it the wall's figures are to be read. */
  readonly load: { readonly before: readonly number[]; readonly after: readonly number[] };
}

type Table = readonly (readonly string[])[];

export function reportOf(costs: Costs): Report {
  const { sizes, bandwidth, indexing, turns } = costs;
  return {
    name: "recall-costs",
    tables: [
      queryTable(sizes),
      scanTable(costs),
      indexTable(indexing),
      bytesTable(sizes),
      openTable(sizes),
      turnTable(turns),
      loadTable(costs),
    ],
    targets: [
      ...openTargets(sizes),
      { what: "memory's bandwidth over the 1-bit scan's", value: bandwidth.memory / bandwidth.bits, max: 2 },
      ...turns.slice(0, 1).map(({ ratio }) => ({
        what: "CPU of a turn with memory over one without, apart",
        value: ratio,
        max: 1.3,
      })),
    ],
    measured: costs,
  };
}

function openTargets(sizes: readonly SizeCost[]): readonly Target[] {
  const [first, last] = [sizes[0], sizes.at(-1)];
  if (first === undefined || last === undefined || first === last) return [];
  return [
    {
      what: `open at ${formatSize(last.size)} over open at ${formatSize(first.size)}, CPU`,
      value: last.opened.open.cpuMs / first.opened.open.cpuMs,
      max: 2,
    },
  ];
}

export function queryTable(sizes: readonly Pick<SizeCost, "size" | "queries">[]): Table {
  // The names are those of the same table.
  const ways = Object.keys(sizes[0]?.queries ?? {}) as Way[];
  const rows = ways.flatMap((way) => [
    [`${way}, wall ms`, ...sizes.map(({ queries }) => formatSpread(queries[way].wall))],
    [`${way}, CPU ms`, ...sizes.map(({ queries }) => formatSpread(queries[way].cpu))],
  ]);
  return [
    ["a question, p50 / p99", ...sizes.map(({ size }) => formatSize(size))],
    ...rows,
    ["questions asked", ...sizes.map(({ queries }) => String(queries.recall.runs))],
  ];
}

/** What a vector is told apart by at first sight: a bit a dimension. */
const SIGNATURE_BYTES = 48;

function scanTable({ sizes, bandwidth }: Costs): Table {
  const row = (what: string, bytesPerSecond: number): readonly string[] => [
    what,
    (bytesPerSecond / 1e9).toFixed(1),
    (bytesPerSecond / bandwidth.memory).toFixed(2),
  ];
  const nearest = ({ queries }: SizeCost): number => queries["nearest vectors"].cpu.p50 / 1_000;
  return [
    ["one thread", "GB/s", "of the memory's"],
    row("memory", bandwidth.memory),
    row("1-bit scan", bandwidth.bits),
    row("8-bit scan", bandwidth.bytes),
    ...sizes.map((each) =>
      row(
        `nearest vectors of ${formatSize(each.size)}, 1-bit part over all`,
        (each.size * SIGNATURE_BYTES) / nearest(each),
      ),
    ),
  ];
}

function indexTable({ dataSet, messages, chunks, wordsPerMessage, byWords, embedding }: IndexCost): Table {
  const row = (what: string, wallMs: number, cpuMs: number): readonly string[] => [
    what,
    ((messages * 1_000) / wallMs).toFixed(1),
    ((messages * 1_000) / cpuMs).toFixed(1),
    (cpuMs / messages).toFixed(2),
  ];
  const heading = `${messages} messages of ${dataSet}, ${chunks} chunks, ${wordsPerMessage.toFixed(0)} words each`;
  return [
    [heading, "messages/s", "messages/CPU s", "CPU ms/message"],
    row("by words", byWords.wallMs, byWords.cpuMs),
    row("with embedding", byWords.wallMs + embedding.wallMs, byWords.cpuMs + embedding.cpuMs),
  ];
}

function bytesTable(sizes: readonly SizeCost[]): Table {
  // The names are those of the same table.
  const parts = Object.keys(sizes[0]?.bytes ?? {}) as (keyof StoredBytes)[];
  const rows = parts.map((part) => [part, ...sizes.map(({ size, bytes }) => (bytes[part] / size).toFixed(0))]);
  const total = ({ size, bytes }: SizeCost): string =>
    (parts.reduce((sum, part) => sum + bytes[part], 0) / size).toFixed(0);
  return [
    ["bytes an entry", ...sizes.map(({ size }) => formatSize(size))],
    ...rows,
    ["together", ...sizes.map(total)],
    ["built in, s", ...sizes.map(({ buildMs }) => (buildMs / 1_000).toFixed(0))],
  ];
}

function openTable(sizes: readonly SizeCost[]): Table {
  const rows = sizes.map(({ size, opened: { open, firstSearch } }) => [
    formatSize(size),
    ...[open.wallMs, open.cpuMs, firstSearch.wallMs, firstSearch.cpuMs].map((ms) => ms.toFixed(1)),
  ]);
  return [["in a fresh process", "open, wall ms", "CPU ms", "first search, wall ms", "CPU ms"], ...rows];
}

function loadTable({ load }: Costs): Table {
  const show = (averages: readonly number[]): readonly string[] => averages.map((average) => average.toFixed(2));
  return [
    ["load of the machine", "1 min", "5 min", "15 min"],
    ["before", ...show(load.before)],
    ["after", ...show(load.after)],
  ];
}
