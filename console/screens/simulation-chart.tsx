import type { JSX } from "preact";
import type { ReplayMark, SimulatedRun } from "../../src/contract/simulation.ts";
import { formatTokens } from "../format.ts";

const WIDTH = 800;
const HEIGHT = 220;
const LEFT = 52;
const BOTTOM = 26;
const TOP = 10;
const RIGHT = 10;
const LINES = 6;
/** More points than this nobody sees, and the page would only be larger. */
const POINTS_MAX = 800;

/** The class that gives a policy's line its colour. */
export function lineClass(index: number): string {
  return `sim-line sim-line-${index % LINES}`;
}

/** How large the context was at each call, a line a policy, with marks where it was made smaller. */
export function ContextChart({
  runs,
  names,
}: {
  readonly runs: readonly SimulatedRun[];
  readonly names: readonly string[];
}): JSX.Element {
  const calls = Math.max(2, ...runs.map(({ context }) => context.length));
  const most = niceAbove(Math.max(1, ...runs.map(({ largest_context }) => largest_context)));
  const x = (call: number): number => LEFT + (call / (calls - 1)) * (WIDTH - LEFT - RIGHT);
  const y = (tokens: number): number => HEIGHT - BOTTOM - (tokens / most) * (HEIGHT - BOTTOM - TOP);
  const told = runs.map((run) => `${run.policy}: at most ${formatTokens(run.largest_context)} tokens`).join("; ");
  return (
    <figure class="sim-chart">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`Context by model call. ${told}.`}>
        {[0, 0.25, 0.5, 0.75, 1].map((share) => (
          <g key={share}>
            <line class="sim-grid" x1={LEFT} x2={WIDTH - RIGHT} y1={y(most * share)} y2={y(most * share)} />
            <text class="sim-tick" x={LEFT - 6} y={y(most * share) + 4} text-anchor="end">
              {formatTokens(most * share)}
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
              <polyline class={lineClass(index)} points={pointsOf(run.context, x, y)} />
              {run.marks.map((mark, at) => (
                <Mark key={at} mark={mark} index={index} x={x(mark.call)} y={y(run.context[mark.call] ?? 0)} />
              ))}
            </g>
          );
        })}
      </svg>
      <figcaption class="soft">
        Tokens sent with each call of the model. ● a compaction, ▲ an eviction, ✕ a compaction that failed.
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
  const colour = `sim-mark sim-mark-${index % LINES}`;
  switch (mark.kind) {
    case "compaction":
      return <circle class={colour} cx={x} cy={y} r="4" />;
    case "eviction":
      return <polygon class={colour} points={`${x},${y - 5} ${x - 4.5},${y + 3.5} ${x + 4.5},${y + 3.5}`} />;
    case "failed":
      return (
        <path
          class={`${colour} sim-cross`}
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

/** The next number above that is easy to read in quarters. */
function niceAbove(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 4, 6, 8, 10].find((one) => one * power >= value) ?? 10;
  return step * power;
}
