import type { MemoryHit } from "../../../contract/memory.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import type { Paint } from "../paint.ts";
import { oneLine } from "../plain-text.ts";
import { ageOf } from "../sessions/age.ts";
import { shortId } from "../sessions/selector.ts";

export interface HitView {
  readonly paint: Paint;
  /** What was looked for; its words stand out in the text. */
  readonly query: string;
  /** How wide the terminal is, when it is one. */
  readonly columns: number | undefined;
  readonly nowMs: number;
  /** What to write to see a hit whole; undefined where it is shown whole. */
  readonly wholeHint: string | undefined;
}

/** A hit as a person reads it: how sure, when, where and by whom; then what was said. */
export function hitLines(hit: MemoryHit, view: HitView): readonly string[] {
  const { bold, dim } = view.paint;
  const { score, session_id, turn, seq, created_at, agent } = hit;
  const age = ageOf(Math.floor(Date.parse(created_at) / 1_000), view.nowMs);
  const place = agent === undefined ? `${shortId(session_id)} turn ${turn} seq ${seq}` : `${agent} memory ${turn}`;
  const head = `${bold(score.toFixed(2))}  ${dim(`${age}  ${oneLine(place, PLACE_CHARS_MAX)}`)}  ${speakerOf(hit)}`;
  return [head, ...textLines(hit.content, view).map((line) => `${INDENT}${line}`.trimEnd())];
}

const PLACE_CHARS_MAX = 80;
const INDENT = "      ";
const SPEAKERS: Readonly<Record<string, string>> = { user: "you", assistant: "model", tool: "tool", notice: "notice" };

const KINDS: Readonly<Record<string, string>> = {
  summary: "summary",
  agent_memory: "remembered",
  agent_summary: "summary",
  agent_note: "note",
};

function speakerOf({ role, kind }: MemoryHit): string {
  const known = KINDS[kind];
  if (known !== undefined) return known;
  const speaker = SPEAKERS[role] ?? oneLine(role, PLACE_CHARS_MAX);
  return kind === "tool_call" ? `${speaker}, calling a tool` : speaker;
}

const COLUMNS_DEFAULT = 100;
const COLUMNS_MIN = 20;
const LINES_MAX = 6;
/** So many lines before the one that matches best, for what leads up to it. */
const LINES_BEFORE = 2;

function textLines(
  content: string,
  { paint, query, columns = COLUMNS_DEFAULT, wholeHint }: HitView,
): readonly string[] {
  const wanted = new Set(wordsOf(query).map(({ folded }) => folded));
  const mark = (line: string): string => markWords(line, wanted, paint);
  const said = withoutControls(content).trim().split("\n");
  if (wholeHint === undefined) return said.map(mark);
  const width = Math.max(COLUMNS_MIN, columns - INDENT.length);
  const lines = said.flatMap((line) => wrap(line, width));
  const start = Math.max(0, Math.min(bestLine(lines, wanted) - LINES_BEFORE, lines.length - LINES_MAX));
  const end = start + LINES_MAX;
  const more = lines.length > LINES_MAX ? [paint.dim(`(${lines.length - LINES_MAX} more lines: ${wholeHint})`)] : [];
  return [
    ...(start === 0 ? [] : [paint.dim("…")]),
    ...lines.slice(start, end).map(mark),
    ...(end >= lines.length ? [] : [paint.dim("…")]),
    ...more,
  ];
}

function wrap(line: string, width: number): readonly string[] {
  // A line breaks at a space where it has one, and in the middle of a word that fills it.
  return line.match(new RegExp(`.{1,${width}}(?:\\s+|$)|.{1,${width}}`, "gu"))?.map((part) => part.trimEnd()) ?? [""];
}

/** The first of the lines that hold the most of the words. */
function bestLine(lines: readonly string[], wanted: ReadonlySet<string>): number {
  const counts = lines.map(
    (line) => new Set(wordsOf(line).flatMap(({ folded }) => (wanted.has(folded) ? [folded] : []))).size,
  );
  return counts.indexOf(Math.max(...counts));
}

function markWords(line: string, wanted: ReadonlySet<string>, { bold }: Paint): string {
  let marked = "";
  let done = 0;
  for (const { folded, from, to } of wordsOf(line)) {
    if (!wanted.has(folded)) continue;
    marked += line.slice(done, from) + bold(line.slice(from, to));
    done = to;
  }
  return marked + line.slice(done);
}

interface Word {
  /** Without case and accents, as it is compared. */
  readonly folded: string;
  readonly from: number;
  readonly to: number;
}

const SEGMENTER = new Intl.Segmenter("en", { granularity: "word" });

/** The words of a text in any script, also of those that write no spaces. */
function wordsOf(text: string): readonly Word[] {
  return [...SEGMENTER.segment(text)]
    .filter(({ isWordLike }) => isWordLike)
    .map(({ segment, index }) => ({ folded: fold(segment), from: index, to: index + segment.length }));
}

function fold(word: string): string {
  return word.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}
