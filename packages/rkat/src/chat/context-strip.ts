import type { ModelCalls, PartKind, SessionContext } from "@rkat/core/contract/session-info";
import { alignColumns, costText, counted, createPaint, grouped, type Io, type Paint } from "../io.ts";

const COLUMNS_DEFAULT = 80;
const COLUMNS_MIN = 20;
/** Compaction starts at 80 % of a window unless a threshold says otherwise; so its mark stands there, too. */
const BEYOND_THRESHOLD = 1.25;

interface Segment {
  readonly kind: PartKind | "tools";
  readonly name: string;
  readonly glyph: string;
  readonly brush: Exclude<keyof Paint, "red">;
}

/** In the order of the bar; each glyph identifies its part without colour. */
const SEGMENTS: readonly Segment[] = [
  { kind: "tools", name: "tools", glyph: "▚", brush: "dim" },
  { kind: "system", name: "system", glyph: "≡", brush: "green" },
  { kind: "summary", name: "summary", glyph: "▓", brush: "cyan" },
  { kind: "work_state", name: "work state", glyph: "▞", brush: "cyan" },
  { kind: "agents_md", name: "AGENTS.md", glyph: "§", brush: "green" },
  { kind: "pinned", name: "pinned", glyph: "◆", brush: "yellow" },
  { kind: "expanded", name: "expanded", glyph: "▒", brush: "green" },
  { kind: "turn", name: "turns", glyph: "█", brush: "bold" },
  { kind: "tool_output", name: "tool output", glyph: "▤", brush: "blue" },
  { kind: "evicted", name: "evicted", glyph: "┄", brush: "dim" },
  { kind: "memory", name: "memory", glyph: "◇", brush: "magenta" },
];
const FREE = { name: "free", glyph: "·" } as const;
const MARK = "│";

type Filled = Segment & { readonly tokens: number };

type Sized = Pick<
  SessionContext,
  "kinds" | "parts" | "evicted" | "tool_tokens" | "context_window" | "auto_compact_threshold" | "next_call_cost"
> & {
  readonly messages: { readonly length: number };
};

/** Shows what fills a context: a bar as wide as the terminal, and its numbers. */
export function contextBar(context: Sized, { stdout, env }: Pick<Io, "stdout" | "env">): readonly string[] {
  const paint = createPaint(stdout, env);
  const { context_window: window, auto_compact_threshold: threshold } = context;
  const filled = fill(context.kinds, context.tool_tokens);
  const used = sum(filled);
  const scale = scaleOf({ window, threshold, used });
  const cells = Math.max(COLUMNS_MIN, stdout.columns ?? COLUMNS_DEFAULT) - MARK.length;
  const bar = barOf(filled, { scale, cells, threshold }, paint);
  return [headline(context, used), bar, ...legend(context, { filled, used, scale }, paint)];
}

/** What there is of each kind, in the order of the bar. */
function fill(kinds: SessionContext["kinds"], toolTokens: number): readonly Filled[] {
  const sizes = new Map<string, number>(kinds.map(({ kind, tokens }) => [kind, tokens]));
  if (toolTokens > 0) sizes.set("tools", toolTokens);
  return SEGMENTS.flatMap((segment) => {
    const tokens = sizes.get(segment.kind);
    return tokens === undefined ? [] : [{ ...segment, tokens }];
  });
}

function sum(filled: readonly Filled[]): number {
  return filled.reduce((total, { tokens }) => total + tokens, 0);
}

interface Reach {
  readonly window: number | undefined;
  readonly threshold: number | undefined;
  readonly used: number;
}

/** How many tokens the whole bar stands for: the window, or less of it where compaction starts far below. */
function scaleOf({ window = Number.POSITIVE_INFINITY, threshold, used }: Reach): number {
  const reach = threshold === undefined ? window : Math.max(threshold, used) * BEYOND_THRESHOLD;
  const end = Math.min(window, reach);
  return Math.max(1, used, Number.isFinite(end) ? end : used);
}

interface Drawing {
  readonly scale: number;
  readonly cells: number;
  readonly threshold: number | undefined;
}

function barOf(filled: readonly Filled[], { scale, cells, threshold }: Drawing, paint: Paint): string {
  const bar: string[] = [];
  for (const { tokens, glyph, brush } of filled) {
    // What is there is seen, however small.
    const width = Math.max(1, Math.round((tokens / scale) * cells));
    bar.push(...Array.from({ length: width }, () => paint[brush](glyph)));
  }
  while (bar.length < cells) bar.push(paint.dim(FREE.glyph));
  const shown = bar.slice(0, cells);
  if (threshold !== undefined)
    shown.splice(Math.min(cells, Math.round((threshold / scale) * cells)), 0, paint.red(MARK));
  return shown.join("");
}

function headline({ messages, context_window, next_call_cost }: Sized, used: number): string {
  const window = context_window === undefined ? "" : ` of ${grouped(context_window)}`;
  const cost = next_call_cost ? `; as input of the next call about ${costText({ amount: next_call_cost })}` : "";
  return `${counted(messages.length, "message")}, about ${grouped(used)}${window} tokens${cost}`;
}

interface ContextFigures {
  readonly used: number;
  readonly scale: number;
  readonly filled: readonly Filled[];
}

function legend(context: Sized, { filled, used, scale }: ContextFigures, paint: Paint): readonly string[] {
  const { auto_compact_threshold: threshold, context_window: window } = context;
  const end = window ?? threshold ?? used;
  const seen = scale < end ? `of which the bar shows ${grouped(Math.round(scale - used))}` : "";
  const rows = [
    ...filled.map(({ name, tokens, kind }) => [name, grouped(tokens), partsText(context, kind)]),
    ...(window === undefined && threshold === undefined ? [] : [[FREE.name, grouped(Math.max(0, end - used)), seen]]),
  ];
  const width = Math.max(...rows.map(([, tokens = ""]) => tokens.length));
  const glyphs = [...filled.map(({ glyph, brush }) => paint[brush](glyph)), paint.dim(FREE.glyph)];
  const lines = alignColumns(rows.map(([name = "", tokens = "", parts = ""]) => [name, tokens.padStart(width), parts]));
  return [
    ...lines.map((line, index) => `${glyphs[index]} ${line}`),
    ...(threshold === undefined ? [] : [`${paint.red(MARK)} ${thresholdText(threshold, used)}`]),
  ];
}

function partsText({ parts, evicted }: Sized, kind: Segment["kind"]): string {
  if (kind === "evicted" && evicted !== undefined)
    return `${counted(evicted.outputs, "tool output")}, about ${grouped(evicted.tokens)} tokens in the log`;
  const count = parts.filter((part) => part.kind === kind).length;
  if (kind === "turn") return counted(count, "turn");
  return kind === "pinned" || kind === "expanded" ? counted(count, "part") : "";
}

function thresholdText(threshold: number, used: number): string {
  const start = `compaction starts at ${grouped(threshold)}`;
  return used < threshold ? `${start}, in about ${grouped(threshold - used)}` : `${start}, which is reached`;
}

type Call = ModelCalls["calls"][number];

/** Shows model calls, a bar each on one scale, with the compactions between them. */
export function callBars(
  { calls, compactions }: ModelCalls,
  { stdout, env }: Pick<Io, "stdout" | "env">,
): readonly string[] {
  const paint = createPaint(stdout, env);
  const rows = calls.map((call) => ({ call, filled: fill(call.parts, call.tool_tokens) }));
  const scale = Math.max(...rows.map(({ call, filled }) => callScale(call, sum(filled))));
  const heads = alignColumns([
    ["SEQ", "TURN", "TOKENS", "|"],
    ...rows.map(({ call: { seq, turn }, filled }) => [
      String(seq),
      String(turn).padStart("TURN".length),
      grouped(sum(filled)).padStart("TOKENS".length),
      "|",
    ]),
  ]).map((head) => head.slice(0, -1));
  const columns = Math.max(COLUMNS_MIN, stdout.columns ?? COLUMNS_DEFAULT);
  const cells = Math.max(COLUMNS_MIN, columns - (heads[0]?.length ?? 0)) - MARK.length;
  const lines = rows.map(({ call, filled }, at) => ({
    seq: call.seq,
    line: `${heads[at + 1]}${barOf(filled, { scale, cells, threshold: call.threshold }, paint)}`,
  }));
  const marks = compactions.map(({ seq, trigger, tokens_before, tokens_after, undone }) => ({
    seq,
    line: paint.cyan(
      `${String(seq).padEnd(heads[0]?.indexOf("TURN") ?? 0)}${trigger === "eviction" ? "▽ evicted" : "▼ compacted"}: ${grouped(tokens_before)} → ${grouped(tokens_after)} tokens${undone ? ", undone since" : ""}`,
    ),
  }));
  const shown = new Set(rows.flatMap(({ filled }) => filled.map(({ kind }) => kind)));
  const names = SEGMENTS.filter(({ kind }) => shown.has(kind)).map(
    ({ brush, glyph, name }) => `${paint[brush](glyph)} ${name}`,
  );
  const isMarked = calls.some(({ threshold }) => threshold !== undefined);
  return [
    paint.dim(heads[0]?.trimEnd() ?? ""),
    ...[...lines, ...marks].sort((a, b) => a.seq - b.seq).map(({ line }) => line),
    [...names, ...(isMarked ? [`${paint.red(MARK)} compaction starts`] : [])].join("  "),
  ];
}

function callScale({ context_window: window, threshold }: Call, used: number): number {
  return scaleOf({ window, threshold, used });
}
