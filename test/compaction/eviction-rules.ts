import { pinnedIn } from "@rkat/core/compaction/shown-messages";
import type { Message } from "@rkat/core/contract/message";
import { type CompactionRecord, isIn } from "@rkat/core/state/context";
import type { WholeState } from "@rkat/core/state/whole-state";
import { contentTokens } from "@rkat/core/turn/tokens";
import { brokenByCompaction, type Earlier } from "./context-rules.ts";

/** What an eviction is held against: the session right before it. */
export interface BeforeEviction extends Earlier {
  readonly state: Pick<WholeState, "cadence" | "lastInputTokens" | "usage">;
  /** The seqs of everything a pin keeps, and what was brought back by hand. */
  readonly pinned: ReadonlySet<number>;
  readonly expanded: readonly { readonly from_seq: number; readonly to_seq: number }[];
  /** The last output that was evicted before, where the context still shows its message. */
  readonly point: number | undefined;
}

export function beforeEviction(state: WholeState): BeforeEviction {
  const { cadence, lastInputTokens, usage } = state;
  const made = state.compactions.filter(({ undone, undoneByHand }) => undoneByHand || !undone);
  return {
    shown: [...state.shown],
    transcript: [...state.transcript],
    state: { cadence, lastInputTokens, usage },
    pinned: new Set([...pinnedIn(state.shown, state.pins)].map(({ seq }) => seq)),
    expanded: state.compactions.findLast(({ undone }) => !undone)?.expanded ?? [],
    point: made.findLast(({ body }) => body.evicted !== undefined)?.body.evicted?.up_to_seq,
  };
}

const LINE =
  /^\[[^[\]"·\n]* "[^[\]"·\n]*" · about [\d,]+ tokens · (called again later, )?left the context; recall_output\(seq: \d+(, call: \d+)?\) shows it\]$/u;

/** What is wrong with an eviction that was made; one sentence for each rule that is broken. */
export function brokenByEviction(before: BeforeEviction, state: WholeState, record: CompactionRecord) {
  const { body } = record;
  const broken = [...brokenByCompaction(before, state, record)];
  const reported = new Map(before.shown.map((placed) => [placed.seq, placed.message]));
  const logged = new Map(state.transcript.map(({ seq, message }) => [seq, message]));
  const changed: number[] = [];
  for (const { seq, message } of state.shown) {
    const was = reported.get(seq);
    if (was === undefined || JSON.stringify(was) === JSON.stringify(message)) continue;
    changed.push(seq);
    if (before.pinned.has(seq) || isIn(before.expanded, seq)) broken.push(`${seq} was wanted whole`);
    broken.push(...brokenMessage(seq, { was, is: message, whole: logged.get(seq) }));
  }
  const places = before.shown.map(({ seq }) => seq);
  const point = before.point === undefined ? -1 : places.lastIndexOf(before.point);
  if (changed.some((seq) => places.indexOf(seq) <= point)) broken.push(`${changed.join()} changed before ${point}`);
  const newest = before.shown.findLast(({ message }) => message.role === "tool_results")?.seq;
  if (newest !== undefined && changed.includes(newest)) broken.push(`${newest} was not read yet`);
  if (changed.at(-1) !== body.evicted?.up_to_seq) broken.push(`the point is ${body.evicted?.up_to_seq}`);
  const { lost, in_summary } = body.receipt;
  if (lost + in_summary > 0) broken.push(`the receipt says that ${lost} are lost, ${in_summary} in a summary`);
  if (JSON.stringify(before.state.cadence) !== JSON.stringify(state.cadence)) broken.push("the cadence has advanced");
  const left = Math.max(0, before.state.lastInputTokens - (body.tokens_before - body.tokens_after));
  if (state.lastInputTokens !== left) broken.push(`${state.lastInputTokens} tokens counted, not ${left}`);
  return broken;
}

interface Changed {
  readonly was: Message;
  readonly is: Message;
  readonly whole: Message | undefined;
}

/** Only results may change, each to one line that is shorter and names where the log has it whole. */
function brokenMessage(seq: number, { was, is, whole }: Changed): readonly string[] {
  if (was.role !== "tool_results" || is.role !== "tool_results" || whole?.role !== "tool_results")
    return [`${seq} is ${is.role}`];
  return is.results.flatMap((result, at) => {
    const [before, log] = [was.results[at], whole.results[at]];
    if (JSON.stringify(before) === JSON.stringify(result)) return [];
    const { content, ...rest } = result;
    const { content: had = "", ...kept } = before ?? {};
    const isSame = JSON.stringify(rest) === JSON.stringify(kept) && log?.tool_use_id === result.tool_use_id;
    const call = is.results.length > 1 ? `, call: ${at + 1}` : "";
    const isLine = typeof content === "string" && LINE.test(content) && content.includes(`(seq: ${seq}${call})`);
    const isShorter = contentTokens(content) < contentTokens(had);
    return isSame && isLine && isShorter ? [] : [`${seq} became ${JSON.stringify(result)}`];
  });
}
