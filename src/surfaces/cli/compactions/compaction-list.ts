import type { Compaction } from "../../../contract/compaction.ts";
import { type Io, writeJson } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import { createPaint } from "../paint.ts";
import { alignColumns, grouped } from "../plain-text.ts";
import { ageOf } from "../sessions/age.ts";
import { shortId } from "../sessions/selector.ts";

/** Prints the compactions of a session, a line each, newest first: the order `~1` counts in. */
export async function listCompactions(
  io: Io,
  { runtime }: Opened,
  { id, json }: { readonly id: string; readonly json?: boolean },
): Promise<void> {
  const answer = await runtime.dispatch("listCompactions", { session_id: id });
  if (json) return writeJson(io, answer);
  const compactions = answer.compactions.toReversed();
  if (compactions.length === 0) {
    io.stdout.write(`${shortId(id)} was not compacted yet.\n`);
    return;
  }
  const { dim } = createPaint(io.stdout, io.env);
  const now = Date.now();
  const replaced = new Set(compactions.flatMap(({ undone, superseded = "" }) => (undone ? [] : [superseded])));
  const rows = compactions.map((compaction) => [...factsOf(compaction, now), stateOf(compaction, replaced)]);
  const head = ["ID", "WHEN", "WHY", "MESSAGES", "TOKENS", "LOST", "STATE"];
  for (const [index, line] of alignColumns([head, ...alignRight(rows)]).entries()) {
    const isPale = ["undone", "replaced"].includes(rows[index - 1]?.at(-1) ?? "undone");
    io.stdout.write(`${isPale ? dim(line) : line}\n`);
  }
}

/** Whether what the compaction made is what the model is shown. */
function stateOf({ compaction_id, undone, expanded }: Compaction, replaced: ReadonlySet<string>): string {
  if (undone) return "undone";
  if (replaced.has(compaction_id)) return "replaced";
  return expanded.length > 0 ? "expanded" : "stands";
}

function factsOf(compaction: Compaction, now: number): readonly string[] {
  const { compaction_id, created_at, trigger, receipt } = compaction;
  return [
    shortId(compaction_id),
    ageOf(Math.floor(Date.parse(created_at) / 1_000), now),
    trigger,
    `${grouped(compaction.messages_before)} → ${grouped(compaction.messages_after)}`,
    `${grouped(compaction.tokens_before)} → ${grouped(compaction.tokens_after)}`,
    grouped(receipt.lost),
  ];
}

const NUMBER_COLUMNS = [3, 4, 5];

/** Numbers end where the numbers above and below them do. */
function alignRight(rows: readonly (readonly string[])[]): readonly (readonly string[])[] {
  const widths = NUMBER_COLUMNS.map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) => row.map((cell, column) => cell.padStart(widths[NUMBER_COLUMNS.indexOf(column)] ?? 0)));
}
