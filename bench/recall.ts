import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import type { Embedder } from "@rkat/core/ports/memory";
import { createLocalEmbedder } from "@rkat/node/embedders/local";
import { withGrasp } from "@rkat/node/embedders/open-embedder";
import { type Arena, BUDGETS, createArena, type Finders, FULL } from "./recall-contenders.ts";
import { measureCosts, measureQuestions } from "./recall-costs.ts";
import { type DataSet, loadDataSets, type Question } from "./recall-data.ts";
import { measureEchoes } from "./recall-echo.ts";
import { keepVectors } from "./recall-vectors.ts";
import { publish } from "./report.ts";

// How well memory finds again what was said: evidence per token (the share of what answers that a model reads in so many
// tokens of the tool's rows, as they are sent), the share among the first k, how high they stand, and what `memory_search`
// itself answers with its own defaults. Then what it costs, at
// `--sizes 10k,100k,1m` entries, and what asking adds to memory. `--only <data set>` measures that one alone, `--only costs` the
// costs, `--only questions` those of a question alone, in sessions of `--per-session <n>` entries, `--only echo` the asking.
// `--data <folder>` has the public sets, `--sample <n>` takes so many questions of each memory, `--ablate` leaves out each
// part of the ranking, `--vectors <folder>` keeps the vectors for the next run.
// `--embedder <module>` names a module with `openEmbedder()`; without one, and for the costs, the local one that ships.

const CUTS = [1, 5, 10];
const NDCG_CUT = 10;

interface Row {
  readonly contender: string;
  readonly type: string;
  readonly recall: readonly number[];
  readonly ndcg: number;
  /** One over the place of the first that answers. */
  readonly mrr: number;
  /** The share of what answers that a model reads within each budget. */
  readonly read: readonly number[];
  /** The share of what answers among the hits of the tool's own answer, and in all of that answer. */
  readonly tool: readonly [number, number];
}

interface Metric {
  readonly name: string;
  readonly of: (row: Row) => number;
}

/** First the evidence per token, which is what a model feels of a memory. */
const METRICS: readonly Metric[] = [
  ...BUDGETS.map((budget, at) => ({ name: `in ${budget} tokens`, of: ({ read }: Row) => read[at] ?? 0 })),
  ...CUTS.map((cut, at) => ({ name: `R@${cut}`, of: ({ recall }: Row) => recall[at] ?? 0 })),
  { name: `NDCG@${NDCG_CUT}`, of: ({ ndcg }) => ndcg },
  { name: "MRR", of: ({ mrr }) => mrr },
  { name: "tool hits", of: ({ tool }) => tool[0] },
  { name: "tool answer", of: ({ tool }) => tool[1] },
];

const COSTS = "costs";
const ECHO = "echo";
/** Part of the costs, and measured apart where it is named. */
const QUESTIONS = "questions";

const { values } = parseArgs({
  options: {
    embedder: { type: "string" },
    only: { type: "string" },
    data: { type: "string" },
    sample: { type: "string" },
    vectors: { type: "string" },
    ablate: { type: "boolean" },
    "per-session": { type: "string" },
    sizes: { type: "string" },
    "no-assert": { type: "boolean" },
  },
});
const dataSets = await loadDataSets(values.data);
const sampleMax = Number(values.sample ?? Number.POSITIVE_INFINITY);
const [received] = dataSets;
const isWanted = (name: string): boolean => values.only === undefined || values.only === name;
const wanted = dataSets.filter(({ name }) => isWanted(name));
if (wanted.length > 0) await publishQuality(wanted);
if (isWanted(ECHO)) await publishEchoes();
if (values.only === QUESTIONS) {
  const perSession = values["per-session"];
  await publish(await measureQuestions(perSession === undefined ? undefined : Number(perSession)));
}
if (received !== undefined && isWanted(COSTS)) await publish(await measureCosts(received));

async function publishEchoes(): Promise<void> {
  const embedder = await openNamedEmbedder(values.embedder);
  await publish(await measureEchoes(embedder));
  await embedder.close();
}

async function publishQuality(asked: readonly DataSet[]): Promise<void> {
  const embedder = await openNamedEmbedder(values.embedder);
  const measured: { readonly name: string; readonly rows: readonly Row[] }[] = [];
  const finders = { model: embedder, ablates: values.ablate === true };
  for (const dataSet of asked) measured.push({ name: dataSet.name, rows: await measure(dataSet, finders) });
  await embedder.close();
  const tables = measured.flatMap(({ name, rows }) => [tableOf(name, rows), differencesOf(name, rows)]);
  await publish({ name: "recall", tables, targets: [], measured });
}

async function openNamedEmbedder(path: string | undefined): Promise<Embedder> {
  if (path === undefined) {
    const local = createLocalEmbedder();
    return withGrasp(values.vectors === undefined ? local : keepVectors(local, values.vectors));
  }
  // What the option asks of the module.
  const module = (await import(pathToFileURL(path).href)) as { openEmbedder(): Promise<Embedder> };
  return module.openEmbedder();
}

async function measure({ cases }: DataSet, finders: Finders): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const steps of cases) {
    const arena = createArena(finders);
    const all = steps.reduce((sum, { questions }) => sum + questions.length, 0);
    const every = Math.max(1, all / sampleMax);
    let seen = 0;
    for (const { questions, session } of steps) {
      // Spread over all of them: their types stand one after the other.
      const taken = questions.filter(() => Math.floor(++seen / every) > Math.floor((seen - 1) / every));
      for (const question of taken) rows.push(...(await rowsOf(arena, question)));
      if (session !== undefined) await arena.learn(session);
    }
  }
  return rows;
}

async function rowsOf(arena: Arena, { type, text, gold }: Question): Promise<readonly Row[]> {
  return [...(await arena.ask(text))].map(([contender, { keys, read, tool }]) => ({
    contender,
    type,
    recall: CUTS.map((cut) => recallAt(keys, gold, cut)),
    ndcg: ndcgOf(keys, gold),
    mrr: 1 / (1 + keys.findIndex((key) => gold.has(key)) || Number.POSITIVE_INFINITY),
    read: read.map((keys) => recallAt([...keys], gold, keys.size)),
    tool: [recallAt(tool.hits, gold, tool.hits.length), recallAt(tool.all, gold, tool.all.length)],
  }));
}

function recallAt(keys: readonly string[], gold: ReadonlySet<string>, cut: number): number {
  return keys.slice(0, cut).filter((key) => gold.has(key)).length / gold.size;
}

function ndcgOf(keys: readonly string[], gold: ReadonlySet<string>): number {
  const gain = (rank: number): number => 1 / Math.log2(rank + 2);
  const got = keys.slice(0, NDCG_CUT).reduce((sum, key, rank) => sum + (gold.has(key) ? gain(rank) : 0), 0);
  const ideal = Array.from({ length: Math.min(NDCG_CUT, gold.size) }, (_, rank) => gain(rank));
  return got / ideal.reduce((sum, value) => sum + value, 0);
}

function tableOf(name: string, rows: readonly Row[]): readonly (readonly string[])[] {
  const types = [...new Set(rows.map(({ type }) => type))].sort();
  const byContender = Map.groupBy(rows, ({ contender }) => contender);
  const cells = [...byContender].flatMap(([contender, own]) => [
    rowOf(contender, own),
    ...(types.length < 2
      ? []
      : types.map((type) =>
          rowOf(
            `  ${type}`,
            own.filter((row) => row.type === type),
          ),
        )),
  ]);
  return [[name, "questions", ...METRICS.map((metric) => metric.name)], ...cells];
}

function rowOf(label: string, rows: readonly Row[]): readonly string[] {
  const figures = METRICS.map(({ of }) => (100 * meanOf(rows.map(of))).toFixed(1));
  return [label, String(rows.length), ...figures];
}

/** What each way finds beyond the whole of it, question by question, with the standard error of that. */
function differencesOf(name: string, rows: readonly Row[]): readonly (readonly string[])[] {
  const byContender = Map.groupBy(rows, ({ contender }) => contender);
  const whole = byContender.get(FULL) ?? [];
  const others = [...byContender].filter(([contender]) => contender !== FULL);
  const cell = ({ of }: Metric, own: readonly Row[]): string => {
    const beyond = own.map((row, at) => of(row) - of(whole[at] ?? row));
    const mean = meanOf(beyond);
    const error = Math.sqrt(meanOf(beyond.map((value) => (value - mean) ** 2)) / beyond.length);
    return `${(100 * mean).toFixed(1)} ± ${(100 * error).toFixed(1)}`;
  };
  return [
    [`${name}, beyond ${FULL}`, ...METRICS.map((metric) => metric.name)],
    ...others.map(([contender, own]) => [contender, ...METRICS.map((metric) => cell(metric, own))]),
  ];
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
