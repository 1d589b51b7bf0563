import type { Figures, Simulation } from "../../../contract/simulation.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { alignColumns, costText, counted, createPaint, grouped, type Io } from "../io.ts";

/** A simulation for the eye: a table a log, and one of all of them. */
export function simulationLines({ stdout, env }: Io, { logs, runs, sums, summaries }: Simulation): readonly string[] {
  const { bold, dim, yellow } = createPaint(stdout, env);
  const tables = logs.flatMap(({ name, model, calls, turns, is_priced, notes }) => [
    bold(withoutControls(name)) +
      dim(`  ${withoutControls(model)}, ${counted(turns, "turn")}, ${counted(calls, "call")}`),
    ...tableOf(runs.filter(({ log }) => log === name)),
    ...(is_priced ? [] : [yellow(`! no price of ${withoutControls(model)} is known; -m names another model`)]),
    ...notes.map((note) => dim(`  ${withoutControls(note)}`)),
    "",
  ]);
  const all = logs.length > 1 ? [bold(`All ${logs.length} logs`), ...tableOf(sums), ""] : [];
  const made =
    summaries === "model"
      ? "by the configured model"
      : summaries === "recorded"
        ? "as recorded, else offline"
        : "offline";
  return [...tables, ...all, dim(`Summaries: ${made}. Cost: turns + summaries. Specifics: kept · recoverable · lost.`)];
}

const HEADING = [
  "policy",
  "input",
  "cached",
  "output",
  "cost",
  "compactions",
  "evictions",
  "summaries",
  "waited",
  "largest",
  "specifics",
  "recall",
];

function tableOf(rows: readonly (Figures & { readonly policy: string })[]): readonly string[] {
  return alignColumns([HEADING, ...rows.map(rowOf)]).map((line) => `  ${line}`);
}

function rowOf(run: Figures & { readonly policy: string }): readonly string[] {
  const { cost, specifics, probes } = run;
  const kept = specifics.in_summary + specifics.in_tail + specifics.pinned;
  const failed = run.failed === 0 ? "" : ` (${run.failed} failed)`;
  return [
    run.policy,
    grouped(run.input_tokens + run.summary_input_tokens),
    grouped(run.cached_tokens),
    grouped(run.output_tokens + run.summary_output_tokens),
    cost === undefined ? "?" : `${costText({ amount: cost.turns })} + ${costText({ amount: cost.summaries })}`,
    `${grouped(run.compactions)}${failed}`,
    grouped(run.evictions),
    grouped(run.summaries),
    `${grouped(run.waited)} (${(run.waited_share * 100).toFixed(1)} %)`,
    grouped(run.largest_context),
    `${grouped(kept)} · ${grouped(specifics.recoverable)} · ${grouped(specifics.lost)}`,
    probes.asked === 0 ? "–" : `${probes.found} of ${probes.asked}`,
  ];
}
