import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { Figures, SimulatedRun, Simulation } from "../../src/contract/simulation.ts";
import { formatCost, formatCount, formatTokens } from "../format.ts";
import { Note } from "../parts.tsx";
import { nextTheme, theme } from "../theme.ts";
import { ContextChart, lineClass } from "./simulation-chart.tsx";

type Row = Figures & { readonly policy: string };

/** Recorded sessions under several policies, in a file: what each costs, and how large it lets the context grow. */
export function SimulationPage({ simulation }: { simulation: Simulation }): JSX.Element {
  const { logs, runs, sums, policies } = simulation;
  useEffect(() => {
    document.title = "Compaction policies · rkat";
  }, []);
  const names = policies.map(({ name }) => name);
  return (
    <div class="shell">
      <nav class="nav" aria-label="This page">
        <span class="brand">rkat</span>
        <p class="kept-note">Recorded sessions under other policies, in a file. Nothing is sent anywhere.</p>
        <span class="grow" />
        <button type="button" class="quiet" onClick={nextTheme} title="Light, dark, or as the system has it">
          Theme: {theme.value}
        </button>
      </nav>
      <main class="main stack" id="main" tabIndex={-1}>
        <h1>Compaction policies</h1>
        <Policies simulation={simulation} />
        {logs.length > 1 && (
          <section class="card" aria-labelledby="all">
            <h2 id="all">All {formatCount(logs.length)} logs</h2>
            <MoneyBars rows={sums} names={names} />
            <FigureTable rows={sums} names={names} />
          </section>
        )}
        {logs.map((log, index) => (
          <LogCard
            key={log.name}
            log={log}
            id={`log-${index}`}
            runs={runs.filter((run) => run.log === log.name)}
            names={names}
          />
        ))}
      </main>
    </div>
  );
}

const MADE_BY = {
  offline:
    "Summaries were made offline, of sentences of the conversation, and priced as if the model had written them.",
  recorded: "Summaries are those of the recorded session where it had one, and otherwise made offline.",
  model: "Summaries were written by the configured model.",
} as const;

function Policies({ simulation: { policies, summaries } }: { simulation: Simulation }): JSX.Element {
  return (
    <section class="card" aria-labelledby="policies">
      <h2 id="policies">Policies</h2>
      <ul class="sim-policies">
        {policies.map(({ name, settings }, index) => (
          <li key={name}>
            <Swatch index={index} /> <strong>{name}</strong>{" "}
            <code>
              {Object.entries(settings)
                .map(([key, value]) => `${key} = ${JSON.stringify(value)}`)
                .join(", ") || "all defaults"}
            </code>
          </li>
        ))}
      </ul>
      <p class="soft">{MADE_BY[summaries]}</p>
    </section>
  );
}

function Swatch({ index }: { index: number }): JSX.Element {
  return (
    <svg class="sim-swatch" viewBox="0 0 20 10" aria-hidden="true">
      <line x1="0" y1="5" x2="20" y2="5" class={lineClass(index)} />
    </svg>
  );
}

interface LogCardProps {
  readonly log: Simulation["logs"][number];
  readonly id: string;
  readonly runs: readonly SimulatedRun[];
  readonly names: readonly string[];
}

function LogCard({ log, id, runs, names }: LogCardProps): JSX.Element {
  return (
    <section class="card" aria-labelledby={id}>
      <h2 id={id}>{log.name}</h2>
      <p class="soft">
        {log.model}, {formatCount(log.turns)} turns, {formatCount(log.calls)} calls of the model
      </p>
      {!log.is_priced && <Note kind="plain">No price of {log.model} is known, so nothing is said of money.</Note>}
      <ContextChart runs={runs} names={names} />
      <MoneyBars rows={runs} names={names} />
      <FigureTable rows={runs} names={names} />
      {log.notes.length > 0 && <p class="soft">Not replayed as it was: {log.notes.join("; ")}.</p>}
    </section>
  );
}

const BAR_WIDTH = 400;

/** What the turns and the summaries cost, as bars. */
function MoneyBars({ rows, names }: { rows: readonly Row[]; names: readonly string[] }): JSX.Element | null {
  const priced = rows.flatMap(({ policy, cost }) => (cost === undefined ? [] : [{ policy, ...cost }]));
  const most = Math.max(0, ...priced.map(({ total }) => total));
  if (most === 0) return null;
  const width = (amount: number): number => (amount / most) * BAR_WIDTH;
  return (
    <ul class="sim-bars" aria-label="What each policy costs">
      {priced.map(({ policy, turns, summaries, total }) => (
        <li key={policy}>
          <span class="sim-bar-name">
            <Swatch index={names.indexOf(policy)} /> {policy}
          </span>
          <svg viewBox={`0 0 ${BAR_WIDTH} 14`} preserveAspectRatio="none" aria-hidden="true">
            <rect class="sim-turns" x="0" y="0" width={width(turns)} height="14" />
            <rect class="sim-summaries" x={width(turns)} y="0" width={width(summaries)} height="14" />
          </svg>
          <span class="sim-bar-sum">
            {formatCost({ amount: total })}{" "}
            <span class="soft">
              {summaries > 0 ? `of it ${formatCost({ amount: summaries })} for summaries` : "no summaries"}
            </span>
          </span>
        </li>
      ))}
    </ul>
  );
}

const COLUMNS: readonly (readonly [title: string, of: (row: Row) => string])[] = [
  ["Input", (row) => formatTokens(row.input_tokens + row.summary_input_tokens)],
  ["Cached", (row) => formatTokens(row.cached_tokens)],
  ["Output", (row) => formatTokens(row.output_tokens + row.summary_output_tokens)],
  ["Compactions", (row) => formatCount(row.compactions) + (row.failed > 0 ? ` (${row.failed} failed)` : "")],
  ["Evictions", (row) => formatCount(row.evictions)],
  ["Summaries", (row) => formatCount(row.summaries)],
  ["Waited", (row) => `${formatCount(row.waited)} (${(row.waited_share * 100).toFixed(1)} %)`],
  ["Largest", (row) => formatTokens(row.largest_context)],
  ["In summary", (row) => formatCount(row.specifics.in_summary)],
  ["In tail", (row) => formatCount(row.specifics.in_tail + row.specifics.pinned)],
  ["Recoverable", (row) => formatCount(row.specifics.recoverable)],
  ["Lost", (row) => formatCount(row.specifics.lost)],
  ["Recall", (row) => (row.probes.asked === 0 ? "–" : `${row.probes.found} of ${row.probes.asked}`)],
];

function FigureTable({ rows, names }: { rows: readonly Row[]; names: readonly string[] }): JSX.Element {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: whoever has no mouse must be able to scroll it, too.
    <section class="sim-scroll" tabIndex={0} aria-label="Figures">
      <table class="sim-table">
        <thead>
          <tr>
            <th scope="col">Policy</th>
            {COLUMNS.map(([title]) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.policy}>
              <th scope="row">
                <Swatch index={names.indexOf(row.policy)} /> {row.policy}
              </th>
              {COLUMNS.map(([title, of]) => (
                <td key={title} class={title === "Lost" && row.specifics.lost > 0 ? "sim-bad" : undefined}>
                  {of(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
