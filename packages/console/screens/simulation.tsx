import type { Figures, ReplayMark, SimulatedRun, Simulation } from "@rkat/core/contract/wire/simulation";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { formatCost, formatCount, formatTokens } from "../format.ts";
import { Frame } from "../frame.tsx";
import { Note, Table } from "../parts.tsx";

type Row = Figures & { readonly policy: string };

/** A saved page that compares compaction policies on recorded sessions: their cost and the size of the context. */
export function SimulationPage({ simulation }: { simulation: Simulation }): JSX.Element {
  const { logs, runs, sums, policies } = simulation;
  useEffect(() => {
    document.title = "Compaction policies · rkat";
  }, []);
  const names = policies.map(({ name }) => name);
  return (
    <Frame
      home="#main"
      label="This page"
      nav={<p class="saved-note">Recorded sessions replayed with other policies. This page works offline.</p>}
    >
      <div class="stack">
        <h1>Compaction policies</h1>
        <Policies simulation={simulation} />
        {logs.length > 1 && (
          <section class="card" aria-labelledby="all">
            <h2 id="all">All {formatCount(logs.length)} logs</h2>
            <CostBars rows={sums} names={names} />
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
      </div>
    </Frame>
  );
}

const SUMMARY_SOURCES = {
  offline:
    "Summaries were made offline from sentences of the conversation and priced as if the model had written them.",
  recorded: "Summaries come from the recorded session if it has one, and are made offline otherwise.",
  model: "The configured model wrote the summaries.",
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
      <p class="soft">{SUMMARY_SOURCES[summaries]}</p>
    </section>
  );
}

function Swatch({ index }: { index: number }): JSX.Element {
  return (
    <svg class="sim-swatch" viewBox="0 0 20 10" aria-hidden="true">
      <line x1="0" y1="5" x2="20" y2="5" class={`sim-line ${colorClass(index)}`} />
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
        {log.model}, {formatCount(log.turns)} turns, {formatCount(log.calls)} model calls
      </p>
      {!log.is_priced && <Note kind="plain">The price of {log.model} is unknown, so no costs are shown.</Note>}
      <ContextChart runs={runs} names={names} />
      <CostBars rows={runs} names={names} />
      <FigureTable rows={runs} names={names} />
      {log.notes.length > 0 && <p class="soft">Differences from the recording: {log.notes.join("; ")}.</p>}
    </section>
  );
}

const BAR_WIDTH = 400;

function CostBars({ rows, names }: { rows: readonly Row[]; names: readonly string[] }): JSX.Element | null {
  const priced = rows.flatMap(({ policy, cost }) => (cost === undefined ? [] : [{ policy, ...cost }]));
  const most = Math.max(0, ...priced.map(({ total }) => total));
  if (most === 0) return null;
  const width = (amount: number): number => (amount / most) * BAR_WIDTH;
  return (
    <ul class="sim-bars" aria-label="Cost by policy">
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
              {summaries > 0 ? `including ${formatCost({ amount: summaries })} for summaries` : "no summaries"}
            </span>
          </span>
        </li>
      ))}
    </ul>
  );
}

const COLUMNS: readonly (readonly [title: string, textOf: (row: Row) => string])[] = [
  ["Input", (row) => formatTokens(row.input_tokens + row.summary_input_tokens)],
  ["Cached", (row) => formatTokens(row.cached_tokens)],
  ["Output", (row) => formatTokens(row.output_tokens + row.summary_output_tokens)],
  ["Compactions", (row) => formatCount(row.compactions) + (row.failed > 0 ? ` (${row.failed} failed)` : "")],
  ["Evictions", (row) => formatCount(row.evictions)],
  ["Summaries", (row) => formatCount(row.summaries)],
  ["Waits", (row) => `${formatCount(row.waited)} (${(row.waited_share * 100).toFixed(1)} %)`],
  ["Largest context", (row) => formatTokens(row.largest_context)],
  ["In view", ({ specifics }) => formatCount(specifics.in_summary + specifics.in_tail + specifics.pinned)],
  ["Recoverable", (row) => formatCount(row.specifics.recoverable)],
  ["Lost", (row) => formatCount(row.specifics.lost)],
  ["Recall", (row) => (row.probes.asked === 0 ? "–" : `${row.probes.found} of ${row.probes.asked}`)],
];

function FigureTable({ rows, names }: { rows: readonly Row[]; names: readonly string[] }): JSX.Element {
  return (
    <div class="sim-table">
      <Table label="Figures" columns={[["Policy"], ...COLUMNS.map(([title]) => [title] as const)]}>
        {rows.map((row) => (
          <tr key={row.policy}>
            <th scope="row">
              <Swatch index={names.indexOf(row.policy)} /> {row.policy}
            </th>
            {COLUMNS.map(([title, textOf]) => (
              <td key={title} class={title === "Lost" && row.specifics.lost > 0 ? "sim-bad" : undefined}>
                {textOf(row)}
              </td>
            ))}
          </tr>
        ))}
      </Table>
    </div>
  );
}

const WIDTH = 800;
const HEIGHT = 220;
const LEFT = 52;
const BOTTOM = 26;
const TOP = 10;
const RIGHT = 10;
const COLORS = 6;
/** More points would enlarge the page without a visible difference. */
const POINTS_MAX = 800;

function colorClass(index: number): string {
  return `sim-color-${index % COLORS}`;
}

/** The context size at each model call: one line per policy, with marks for compactions and evictions. */
function ContextChart({ runs, names }: { runs: readonly SimulatedRun[]; names: readonly string[] }): JSX.Element {
  const calls = Math.max(2, ...runs.map(({ context }) => context.length));
  const top = roundUp(Math.max(1, ...runs.map(({ largest_context }) => largest_context)));
  const x = (call: number): number => LEFT + (call / (calls - 1)) * (WIDTH - LEFT - RIGHT);
  const y = (tokens: number): number => HEIGHT - BOTTOM - (tokens / top) * (HEIGHT - BOTTOM - TOP);
  const maxima = runs.map((run) => `${run.policy}: at most ${formatTokens(run.largest_context)} tokens`).join("; ");
  return (
    <figure class="sim-chart">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`Context size by model call. ${maxima}.`}>
        {[0, 0.25, 0.5, 0.75, 1].map((share) => (
          <g key={share}>
            <line class="sim-grid" x1={LEFT} x2={WIDTH - RIGHT} y1={y(top * share)} y2={y(top * share)} />
            <text class="sim-tick" x={LEFT - 6} y={y(top * share) + 4} text-anchor="end">
              {formatTokens(top * share)}
            </text>
          </g>
        ))}
        <text class="sim-tick" x={LEFT} y={HEIGHT - 6}>
          call 1
        </text>
        <text class="sim-tick" x={WIDTH - RIGHT} y={HEIGHT - 6} text-anchor="end">
          call {calls}
        </text>
        {runs.map((run) => {
          const index = names.indexOf(run.policy);
          return (
            <g key={run.policy}>
              <polyline class={`sim-line ${colorClass(index)}`} points={pointsOf(run.context, x, y)} />
              {run.marks.map((mark, at) => (
                <Mark key={at} mark={mark} index={index} x={x(mark.call)} y={y(run.context[mark.call] ?? 0)} />
              ))}
            </g>
          );
        })}
      </svg>
      <figcaption class="soft">
        Tokens sent with each model call. ● compaction, ▲ eviction, ✕ failed compaction.
      </figcaption>
    </figure>
  );
}

interface MarkProps {
  readonly mark: ReplayMark;
  readonly index: number;
  readonly x: number;
  readonly y: number;
}

function Mark({ mark, index, x, y }: MarkProps): JSX.Element {
  const className = `sim-mark ${colorClass(index)}`;
  switch (mark.kind) {
    case "compaction":
      return <circle class={className} cx={x} cy={y} r="4" />;
    case "eviction":
      return <polygon class={className} points={`${x},${y - 5} ${x - 4.5},${y + 3.5} ${x + 4.5},${y + 3.5}`} />;
    case "failed":
      return (
        <path
          class={`${className} sim-cross`}
          d={`M${x - 4},${y - 4}L${x + 4},${y + 4}M${x - 4},${y + 4}L${x + 4},${y - 4}`}
        />
      );
  }
}

function pointsOf(context: readonly number[], x: (call: number) => number, y: (tokens: number) => number): string {
  const step = Math.max(1, Math.ceil(context.length / POINTS_MAX));
  return context
    .flatMap((tokens, call) =>
      call % step === 0 || call === context.length - 1 ? [`${round(x(call))},${round(y(tokens))}`] : [],
    )
    .join(" ");
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** The next larger number whose quarters are easy to read. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 4, 6, 8, 10].find((one) => one * power >= value) ?? 10;
  return step * power;
}
