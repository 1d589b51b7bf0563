import type { Receipt, WorkState } from "../contract/compaction.ts";
import type { Message } from "../contract/message.ts";
import { textsOf, wholeTextsOf } from "../grounding/exactness.ts";
import type { Invented } from "../grounding/groundedness.ts";
import { classify, indexTexts, lazily, type ReceiptItem, type TextIndex } from "../grounding/occurrence.ts";
import { SAID_MAX, type Specific, specificsOf } from "../grounding/specifics.ts";
import type { Clock } from "../ports/clock.ts";
import type { Placed } from "../state/context.ts";
import type { Pruned } from "../state/transcript-text.ts";
import type { WholeState } from "../state/whole-state.ts";
import { isWhole } from "../text/canonical.ts";
import { sentencesOf } from "../text/sentences.ts";
import { agentsMdIn } from "../turn/skills.ts";
import type { Accounting, Reading } from "./reading.ts";

type Line = WorkState["lines"][number];

export interface ReceiptSource {
  /** The messages that leave the context. */
  readonly gone: readonly Placed[];
  /** Specifics that the replaced summary stood for, by their messages. */
  readonly inherited: readonly Specific[];
  /** The messages that stay only because of a pin. */
  readonly saved: readonly Placed[];
  /** With the rules that follow it. */
  readonly summary: string;
  /** The context besides the summary. */
  readonly tail: readonly Message[];
  readonly pinned: readonly Message[];
  readonly pruned: readonly Pruned[];
  readonly invented: readonly Invented[];
  readonly inventedCut: boolean;
  readonly unverified: readonly string[];
  readonly doubtful?: readonly string[];
  /** Facts about the work whose calls left the context, and those that the summary's message reports. */
  readonly work?: { readonly facts: readonly Line[]; readonly shown: readonly Line[] };
  readonly recover: Recover;
  readonly yieldToEventLoop: Clock["yieldToEventLoop"];
  /** The worker; absent: in this thread. With a log, expanding is tried there instead of by `recover`. */
  readonly worker?: {
    readonly read: Reading;
    readonly log: readonly Placed[] | undefined;
    readonly signal: AbortSignal;
  };
}

/** How a specific that is no longer shown can be found: by search, by expanding, or not at all. */
export type Recover = (specific: Specific) => Promise<"search" | "expansion" | undefined>;

/** A log of a hundred thousand lines has as many specifics; a receipt lists this many and counts all. */
const ITEMS_MAX = 1_000;
const INVENTED_MAX = 100;
const UNVERIFIED_MAX = 100;
/** Specifics in the summary are never cut: the next receipt accounts for them again. */
const STATUS_ORDER = ["lost", "in_summary", "pinned", "in_tail", "recoverable"] as const;

/** Accounts for every specific that leaves the context. */
export async function writeReceipt(source: ReceiptSource): Promise<Receipt> {
  const { yieldToEventLoop, worker } = source;
  const from = [...source.gone, ...source.saved].sort((a, b) => a.seq - b.seq);
  const { inherited, summary, tail, pinned } = source;
  const given = { summary, from, inherited, tail, pinned, log: worker && logBesides(worker.log, from, inherited) };
  const found = await (worker === undefined
    ? account(given, yieldToEventLoop)
    : worker.read("account", given, worker.signal));
  let foundBySearch = 0;
  const inView = new Set(source.work?.shown.map(({ text }) => text));
  const items: Receipt["items"] = (source.work?.facts ?? []).map(({ seq, text }) => ({
    kind: "work_state",
    text,
    seq,
    status: inView.has(text) ? "in_summary" : "recoverable",
  }));
  for (const item of found) {
    if (item.status !== "lost" || given.log !== undefined) {
      items.push(item);
      continue;
    }
    await yieldToEventLoop();
    const how = await source.recover(item);
    if (how === "search") foundBySearch += 1;
    items.push({ ...item, status: how === undefined ? "lost" : "recoverable" });
  }
  const counted = (status: (typeof STATUS_ORDER)[number]): number =>
    items.filter((item) => item.status === status).length;
  const worstFirst = STATUS_ORDER.flatMap((status) => items.filter((item) => item.status === status));
  return {
    total: items.length,
    in_summary: counted("in_summary"),
    in_tail: counted("in_tail"),
    pinned: counted("pinned"),
    recoverable: counted("recoverable"),
    lost: counted("lost"),
    found_by_search: foundBySearch,
    items: worstFirst.slice(0, ITEMS_MAX).map(({ kind, text, seq, status }) => ({ kind, text, seq, status })),
    invented: source.invented.slice(0, INVENTED_MAX).map(({ kind, text, sentence }) => ({ kind, text, sentence })),
    invented_cut: source.inventedCut,
    unverified: source.unverified.slice(0, UNVERIFIED_MAX),
    doubtful: (source.doubtful ?? []).slice(0, UNVERIFIED_MAX),
    pruned: source.pruned.map(({ seq, tool_use_id, tokens }) => ({ seq, tool_use_id, tokens })),
  };
}

/** The worker of a session, if it has one; expanding is tried there unless search is required. */
export function workerFor(
  { reading, recovering }: { readonly reading?: Reading | undefined; readonly recovering: object | undefined },
  transcript: readonly Placed[],
  signal: AbortSignal,
): Pick<ReceiptSource, "worker"> {
  if (reading === undefined) return {};
  return { worker: { read: reading, log: recovering === undefined ? transcript : undefined, signal } };
}

/** The rest of the log that an expansion may need. */
function logBesides(
  log: readonly Placed[] | undefined,
  from: readonly Placed[],
  inherited: readonly Specific[],
): readonly Placed[] | undefined {
  const known = new Set(from.map(({ seq }) => seq));
  const asked = new Set(inherited.map(({ seq }) => seq).filter((seq) => !known.has(seq)));
  return log?.filter(({ seq }) => asked.has(seq));
}

/** Where each specific is now; one that is not shown is `lost` if expanding was not tried. */
export async function account(
  given: Accounting,
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<readonly ReceiptItem[]> {
  const { summary, from, inherited, tail, pinned, log } = given;
  const found = await specificsOf(from, yieldToEventLoop);
  const known = new Set(found.map(({ kind, text }) => `${kind} ${text}`));
  const besides = inherited.filter(({ kind, text }) => !known.has(`${kind} ${text}`));
  const byExpanding = log && recoverByExpanding([...log, ...from], yieldToEventLoop);
  return classify([...besides, ...found], {
    summary,
    yieldToEventLoop,
    tail: tail.flatMap(textsOf),
    pinned: pinned.flatMap(textsOf),
    recover: async (specific) => (await byExpanding?.(specific)) !== undefined,
  });
}

/** The discarded content as logged: results that are or become references count whole. */
export function originalsOf(
  transcript: readonly Placed[],
  gone: { discarded: readonly Placed[]; pruned: readonly Pruned[] },
): readonly Placed[] {
  const discarded = new Set(gone.discarded.map(({ seq }) => seq));
  const pruned = Map.groupBy(gone.pruned, ({ seq }) => seq);
  return transcript.flatMap((placed): Placed[] => {
    const { seq, message } = placed;
    // A version of AGENTS.md is only discarded once it no longer holds: nothing of it can be lost.
    if (discarded.has(seq)) return agentsMdIn(message) === undefined ? [placed] : [];
    const ids = pruned.get(seq)?.map(({ tool_use_id }) => tool_use_id);
    if (ids === undefined || message.role !== "tool_results") return [];
    return [{ seq, message: { ...message, results: message.results.filter((one) => ids.includes(one.tool_use_id)) } }];
  });
}

/** The specifics of a summary that is replaced. */
export function inheritedFrom({ compactions }: WholeState, compactionId: string | undefined): readonly Specific[] {
  const record = compactions.find(({ body }) => body.compaction_id === compactionId);
  if (record === undefined) return [];
  const sentences = sentencesOf(record.body.summary);
  return summarisedIn(record.body.receipt).map((specific) => ({
    ...specific,
    said: sentences.filter((sentence) => sentence.includes(specific.text)).slice(0, SAID_MAX),
  }));
}

/** The specifics that a summary stands for; the state of the work is computed anew each time. */
export function summarisedIn({ items }: Receipt): readonly Specific[] {
  return items.flatMap(({ kind, text, seq, status }) =>
    kind === "work_state" || status !== "in_summary" ? [] : [{ kind, text, seq }],
  );
}

/** A specific is found if its logged message contains it. With memory, a search has to find it instead. */
export function recoverByExpanding(log: readonly Placed[], yieldToEventLoop: Clock["yieldToEventLoop"]): Recover {
  const messages = new Map(log.map(({ seq, message }) => [seq, message]));
  const read = new Map<number, ReadMessage>();
  return async (specific) => {
    const message = messages.get(specific.seq);
    if (message === undefined) return undefined;
    const known = read.get(specific.seq) ?? readMessage(message, yieldToEventLoop);
    read.set(specific.seq, known);
    return known.says(specific.text) || (await known.index().has(specific)) ? "expansion" : undefined;
  };
}

interface ReadMessage {
  /** Whether a text occurs literally; most do, without further reading. */
  says(text: string): boolean;
  index(): TextIndex;
}

/** Specifics are requested nearly in order: how far around the last one the next is searched. */
const BACK_CHARS = 4_000;
const AHEAD_CHARS = 64_000;

function readMessage(message: Message, yieldToEventLoop: Clock["yieldToEventLoop"]): ReadMessage {
  const whole = lazily(() => wholeTextsOf(message).join("\n"));
  let last = 0;
  return {
    says: (piece) => {
      const from = Math.max(0, last - BACK_CHARS);
      const near = whole().slice(from, last + AHEAD_CHARS);
      const at = near.indexOf(piece);
      if (at < 0 || !isWhole(near, at, at + piece.length)) return false;
      last = from + at;
      return true;
    },
    index: lazily(() => indexTexts(textsOf(message), yieldToEventLoop)),
  };
}
