import type { SessionContext } from "../../../contract/session.ts";
import type { Io } from "../io.ts";
import { createPaint, type Paint } from "../paint.ts";
import { alignColumns, counted, grouped } from "../plain-text.ts";

const COLUMNS_DEFAULT = 80;
const COLUMNS_MIN = 20;
/** Compaction starts at 80 % of a window unless a threshold says otherwise; so its mark stands there, too. */
const BEYOND_THRESHOLD = 1.25;

interface Segment {
  readonly name: string;
  readonly glyph: string;
  readonly brush: Exclude<keyof Paint, "red">;
}

/** In the order of the bar; each glyph tells its part also without colour. */
const SEGMENTS: readonly (Segment & { readonly kind: string })[] = [
  { kind: "tools", name: "tools", glyph: "▚", brush: "dim" },
  { kind: "system", name: "system", glyph: "≡", brush: "green" },
  { kind: "summary", name: "summary", glyph: "▓", brush: "cyan" },
  { kind: "pinned", name: "pinned", glyph: "◆", brush: "yellow" },
  { kind: "expanded", name: "expanded", glyph: "▒", brush: "green" },
  { kind: "turn", name: "turns", glyph: "█", brush: "bold" },
];
const FREE = { name: "free", glyph: "·" } as const;
const MARK = "│";

type Sized = Pick<SessionContext, "parts" | "tool_tokens" | "context_window" | "auto_compact_threshold"> & {
  readonly messages: { readonly length: number };
};

/** Shows what fills a context: a bar as wide as the terminal, and its numbers. */
export function contextBar(context: Sized, { stdout, env }: Pick<Io, "stdout" | "env">): readonly string[] {
  const paint = createPaint(stdout, env);
  const cells = Math.max(COLUMNS_MIN, stdout.columns ?? COLUMNS_DEFAULT) - MARK.length;
  const filled = SEGMENTS.map((segment) => ({ ...segment, ...sizeOf(context, segment.kind) })).filter(
    ({ parts }) => parts > 0,
  );
  const used = filled.reduce((sum, { tokens }) => sum + tokens, 0);
  const scale = scaleOf(context, used);
  const bar: string[] = [];
  for (const { tokens, glyph, brush } of filled) {
    // What is there is seen, however small.
    const width = Math.max(1, Math.round((tokens / scale) * cells));
    bar.push(...Array.from({ length: width }, () => paint[brush](glyph)));
  }
  while (bar.length < cells) bar.push(paint.dim(FREE.glyph));
  const { auto_compact_threshold: threshold } = context;
  const shown = bar.slice(0, cells);
  if (threshold !== undefined)
    shown.splice(Math.min(cells, Math.round((threshold / scale) * cells)), 0, paint.red(MARK));
  return [headline(context, used), shown.join(""), ...legend(context, { filled, used, scale }, paint)];
}

function sizeOf({ parts, tool_tokens }: Sized, kind: string): { readonly tokens: number; readonly parts: number } {
  if (kind === "tools") return { tokens: tool_tokens, parts: Math.min(1, tool_tokens) };
  const those = parts.filter((part) => part.kind === kind);
  return { tokens: those.reduce((sum, { estimated_tokens }) => sum + estimated_tokens, 0), parts: those.length };
}

/** How many tokens the whole bar stands for: the window, or less of it where compaction starts far below. */
function scaleOf({ context_window, auto_compact_threshold }: Sized, used: number): number {
  const window = context_window ?? Number.POSITIVE_INFINITY;
  const reach =
    auto_compact_threshold === undefined ? window : Math.max(auto_compact_threshold, used) * BEYOND_THRESHOLD;
  const end = Math.min(window, reach);
  return Math.max(1, used, Number.isFinite(end) ? end : used);
}

function headline({ messages, context_window }: Sized, used: number): string {
  const window = context_window === undefined ? "" : ` of ${grouped(context_window)}`;
  return `${counted(messages.length, "message")}, about ${grouped(used)}${window} tokens`;
}

interface Filled {
  readonly used: number;
  readonly scale: number;
  readonly filled: readonly (Segment & { readonly kind: string; readonly tokens: number; readonly parts: number })[];
}

function legend(context: Sized, { filled, used, scale }: Filled, paint: Paint): readonly string[] {
  const { auto_compact_threshold: threshold, context_window: window } = context;
  const end = window ?? threshold ?? used;
  const seen = scale < end ? `of which the bar shows ${grouped(Math.round(scale - used))}` : "";
  const rows = [
    ...filled.map(({ name, tokens, parts, kind }) => [name, grouped(tokens), partsText(kind, parts)]),
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

function partsText(kind: string, parts: number): string {
  if (kind === "turn") return counted(parts, "turn");
  return kind === "pinned" || kind === "expanded" ? counted(parts, "part") : "";
}

function thresholdText(threshold: number, used: number): string {
  const start = `compaction starts at ${grouped(threshold)}`;
  return used < threshold ? `${start}, in about ${grouped(threshold - used)}` : `${start}, which is reached`;
}
