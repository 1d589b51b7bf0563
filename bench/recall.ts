import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { withGrasp } from "../src/embedders/grasp.ts";
import { createLocalEmbedder } from "../src/embedders/local.ts";
import type { Embedder } from "../src/ports/embedder.ts";
import { BUDGETS, createArena } from "./recall-contenders.ts";
import { measureCosts } from "./recall-costs.ts";
import { type DataSet, loadDataSets } from "./recall-data.ts";
import { measureEchoes } from "./recall-echo.ts";
import { publish } from "./report.ts";

// How well memory finds again what was said: share of the answers among the first k, and how high they stand. Then what it
// costs, at `--sizes 10k,100k,1m` entries, and what asking adds to memory. `--only <data set>` measures that one alone,
// `--only costs` the costs, `--only echo` the asking.
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
  readonly shown: readonly number[];
}

const COSTS = "costs";
const ECHO = "echo";

const { values } = parseArgs({
  options: {
    embedder: { type: "string" },
    only: { type: "string" },
    sizes: { type: "string" },
    "no-assert": { type: "boolean" },
  },
});
const dataSets = await loadDataSets();
const [heard] = dataSets;
const isWanted = (name: string): boolean => values.only === undefined || values.only === name;
const wanted = dataSets.filter(({ name }) => isWanted(name));
if (wanted.length > 0) await publishQuality(wanted);
if (isWanted(ECHO)) await publishEchoes();
if (heard !== undefined && isWanted(COSTS)) await publish(await measureCosts(heard));

async function publishEchoes(): Promise<void> {
  const embedder = await openNamedEmbedder(values.embedder);
  await publish(await measureEchoes(embedder));
  await embedder.close();
}

async function publishQuality(asked: readonly DataSet[]): Promise<void> {
  const embedder = await openNamedEmbedder(values.embedder);
  const measured: { readonly name: string; readonly rows: readonly Row[] }[] = [];
  for (const dataSet of asked) measured.push({ name: dataSet.name, rows: await measure(dataSet, embedder) });
  await embedder.close();
  const tables = measured.map(({ name, rows }) => tableOf(name, rows));
  await publish({ name: "recall", tables, targets: [], measured });
}

async function openNamedEmbedder(path: string | undefined): Promise<Embedder> {
  if (path === undefined) return withGrasp(createLocalEmbedder());
  // What the option asks of the module.
  const module = (await import(pathToFileURL(path).href)) as { openEmbedder(): Promise<Embedder> };
  return module.openEmbedder();
}

async function measure({ cases }: DataSet, model: Embedder): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const steps of cases) {
    const arena = createArena(model);
    for (const { questions, session } of steps) {
      for (const { type, text, gold } of questions) {
        for (const [contender, { keys, shown }] of await arena.ask(text)) {
          rows.push({
            contender,
            type,
            recall: CUTS.map((cut) => recallAt(keys, gold, cut)),
            ndcg: ndcgOf(keys, gold),
            mrr: 1 / (1 + keys.findIndex((key) => gold.has(key)) || Number.POSITIVE_INFINITY),
            shown: shown.map((read) => recallAt([...read], gold, read.size)),
          });
        }
      }
      if (session !== undefined) await arena.hear(session);
    }
  }
  return rows;
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
  const budgets = BUDGETS.map((budget) => `in ${budget} tokens`);
  return [[name, "questions", ...CUTS.map((cut) => `R@${cut}`), `NDCG@${NDCG_CUT}`, "MRR", ...budgets], ...cells];
}

function rowOf(label: string, rows: readonly Row[]): readonly string[] {
  const mean = (of: (row: Row) => number): string =>
    ((100 * rows.reduce((sum, row) => sum + of(row), 0)) / rows.length).toFixed(1);
  return [
    label,
    String(rows.length),
    ...CUTS.map((_, at) => mean(({ recall }) => recall[at] ?? 0)),
    mean(({ ndcg }) => ndcg),
    mean(({ mrr }) => mrr),
    ...BUDGETS.map((_, at) => mean(({ shown }) => shown[at] ?? 0)),
  ];
}
