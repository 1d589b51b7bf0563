import { assembleAgentPrompt } from "../agent-memory/tier-text.ts";
import {
  type AgentRow,
  coveredBy,
  dueAt,
  dueWaterfall,
  mustCompact,
  type Waterfall,
  type Windows,
  waterfallNow,
} from "../agent-memory/tiers.ts";
import type {
  AgentCompacted,
  AgentContext,
  AgentEntryBody,
  AgentStatus,
  LongtermQuality,
  MemoryMetadata,
  Remaking,
} from "../contract/agent.ts";
import type { Caller } from "../contract/caller.ts";
import { messageOf } from "../contract/error.ts";
import type { Usage } from "../contract/event.ts";
import { defined } from "../contract/json.ts";
import type { Clock } from "../ports/clock.ts";
import type { SessionLocks } from "../ports/store.ts";
import type { Vault, VaultMemory } from "../ports/vault.ts";
import { queryTerms, termsOf } from "../text/terms.ts";
import { addUsage, NO_USAGE } from "../turn/cost.ts";
import { type AgentLog, agentId, createAgentFiles } from "./agent-log.ts";
import type { SummariseTexts } from "./tier-summariser.ts";

interface NewMemory {
  readonly content: string;
  readonly metadata?: MemoryMetadata | undefined;
  readonly file?: string | undefined;
}

/** The memory of one agent: the newest memories verbatim, a short-term summary and a long-term summary. */
export interface AgentMemory {
  /** `caller` is undefined for the user of this process. */
  remember(memories: readonly NewMemory[], caller?: Caller): Promise<{ count: number; compaction_due: boolean }>;
  note(note: Note): Promise<number>;
  context(immediate: number | undefined): Promise<AgentContext>;
  /** Compacts now; concurrent calls share one compaction. */
  compact(caller?: Caller): Promise<AgentCompacted>;
  status(): Promise<AgentStatus>;
  settled(): Promise<void>;
}

interface Asked {
  readonly forced: boolean;
  readonly caller: Caller | undefined;
}

export interface AgentMemoryParts {
  readonly log: AgentLog;
  readonly locks: SessionLocks;
  readonly windows: Windows;
  readonly summarise: SummariseTexts;
  /** The bytes of text that fit into one summary request. */
  readonly roomBytes: () => Promise<number>;
  readonly cutsInvented: () => boolean;
  /** What the calls of the caller with this name cost today, in US dollars. */
  readonly spentToday: (name: string) => Promise<number>;
  readonly yieldToEventLoop: Clock["yieldToEventLoop"];
  readonly vault: Vault | undefined;
  /** Receives progress, one line at a time. */
  readonly report: (line: string) => void;
  readonly grown: () => void;
  readonly signal: AbortSignal;
}

export function createAgentMemory(name: string, parts: AgentMemoryParts): AgentMemory {
  const { log, windows, signal } = parts;
  const report = (what: string): void => parts.report(`[Memory] ${name}: ${what}`);
  let compacting: Promise<AgentCompacted> | undefined;
  let background: Promise<void> | undefined;
  let isWanted = false;

  const add = async (memories: readonly NewMemory[]): Promise<AgentRow> => {
    const row = await log.append((count) =>
      memories.map(
        ({ content, metadata, file }, at): AgentEntryBody => ({
          kind: "memory_added",
          agent: name,
          number: count + 1 + at,
          content,
          ...defined({ metadata, file }),
        }),
      ),
    );
    await files.wroteMemories(row, memories.length);
    parts.grown();
    return row;
  };

  const files = createAgentFiles(name, { vault: parts.vault, log, locks: parts.locks, report, add });

  const run = async (row: AgentRow, fall: Waterfall, asked: Asked): Promise<AgentCompacted> => {
    const { immediate, recent: window } = windows;
    const { forced, caller } = asked;
    const spender = caller === undefined ? {} : { by: caller.name };
    let spent: { usage: Usage; model?: string } = { usage: NO_USAGE };
    const spend = (usage: Usage, model: string): void => {
      spent = { usage: addUsage(spent.usage, usage), model };
    };
    report(`Starting compaction (${fall.atCount} memories, ${immediate} immediate, ${window} recent)`);
    try {
      const { compactTiers } = await import("./compact-tiers.ts");
      const made = await compactTiers({
        ...parts,
        row,
        fall,
        spend,
        cutsInvented: parts.cutsInvented(),
        mustSucceed: mustCompact(row, windows),
        whyNotRemake: () => whyNotSpend(caller, spent.usage.cost?.amount ?? 0),
      });
      const facts = { at_count: fall.atCount, forced, ...made, ...spent, ...spender };
      const after = await log.append(() => [{ kind: "tiers_compacted", ...facts }]);
      if (made.remaking !== undefined) report(remakingText(made.remaking, made.quality));
      if (made.longterm !== undefined) report(`Long-term summary updated (${made.longterm.summary.length} chars)`);
      report(`Short-term summary updated (${made.recent.summary.length} chars)`);
      report(`Compaction complete (${made.longterm === undefined ? "first summary" : "waterfall"})`);
      parts.grown();
      await files.compacted(after);
      return { compacted: true, ...textsOf(after) };
    } catch (thrown) {
      const reason = messageOf(thrown);
      // A closing runtime is no failure of the summary: the compaction stays due.
      const failed = { kind: "tiers_failed" as const, error: reason, ...spent, ...spender };
      if (!signal.aborted) await log.append((at_count) => [{ ...failed, at_count }]);
      report(`Compaction failed (${reason}); both summaries stay as they were`);
      return { compacted: false, reason };
    }
  };

  /** A summary is made again only within the caller's budget. */
  const whyNotSpend = async (caller: Caller | undefined, spentNow: number): Promise<string | undefined> => {
    const limit = caller?.maxCostPerDay;
    if (caller === undefined || limit === undefined) return undefined;
    const isLeft = (await parts.spentToday(caller.name)) + spentNow < limit;
    return isLeft ? undefined : `token ${caller.name} has spent the ${limit} dollars it may cost a day`;
  };

  /** Runs every due compaction; if forced, also compacts the rest. */
  const compactAll = async (asked: Asked): Promise<AgentCompacted> => {
    let hold: Awaited<ReturnType<SessionLocks["hold"]>>;
    try {
      hold = await parts.locks.hold(agentId(name, "compaction of agent"));
    } catch (thrown) {
      return { compacted: false, reason: `another process compacts this agent (${messageOf(thrown)})` };
    }
    try {
      let last: AgentCompacted = { compacted: false, reason: nothingToDo(await log.row(), windows) };
      for (;;) {
        const row = await log.row();
        const fall = row && dueWaterfall(row, windows);
        if (row === undefined || fall === undefined || signal.aborted) break;
        last = await run(row, fall, { ...asked, forced: false });
        if (!last.compacted) return last;
      }
      const row = await log.row();
      const fall = row && asked.forced ? waterfallNow(row, windows) : undefined;
      return row === undefined || fall === undefined ? last : await run(row, fall, asked);
    } finally {
      await hold.release();
    }
  };
  const compact = (asked: Asked): Promise<AgentCompacted> => {
    compacting ??= compactAll(asked).finally(() => {
      compacting = undefined;
    });
    return compacting;
  };

  return {
    remember: async (memories, caller) => {
      await files.ready();
      const row = await add(memories);
      const compaction_due = dueWaterfall(row, windows) !== undefined;
      if (compaction_due) compactLater(caller);
      return { count: row.count, compaction_due };
    },
    note: async (note) => {
      const row = await log.append(() => [{ kind: "note_added", agent: name, ...note }]);
      const number = row.note_seqs.length;
      await files.wroteNote({ number, ...note });
      return number;
    },
    context: async (immediate) => {
      await files.ready();
      const row = await log.row();
      const shown = row === undefined ? [] : await shownOf(row, immediate);
      const texts = await files.texts();
      const notes = [...(await ownNotes(row)), ...texts.notes];
      const contents = shown.map(({ content }) => content);
      const prompt = assembleAgentPrompt({
        name,
        profile: texts.profile,
        commands: texts.commands,
        notes: relevantNotes(notes, contents),
        longtermSummary: row?.longterm?.summary,
        recentSummary: row?.recent?.summary,
        immediate: contents,
      });
      return { ...(row === undefined ? {} : textsOf(row)), immediate: shown.map(toItem), prompt };
    },
    compact: async (caller) => {
      await files.ready();
      return compact({ forced: true, caller });
    },
    status: async () => {
      await files.ready();
      const row = await log.row();
      const isElsewhere = await parts.locks.isHeld(agentId(name, "compaction of agent"));
      return statusOf(name, row, { windows, isRunning: compacting !== undefined || isElsewhere });
    },
    settled: async () => {
      await background;
      await compacting;
    },
  };

  /** Compacts in the background; a compaction that becomes due meanwhile runs next. */
  function compactLater(caller: Caller | undefined): void {
    isWanted = true;
    background ??= (async () => {
      while (isWanted) {
        isWanted = false;
        // Failures are in the log.
        await compact({ forced: false, caller }).catch((thrown) => report(`Compaction failed (${messageOf(thrown)})`));
      }
      background = undefined;
    })();
  }
  async function shownOf(row: AgentRow, immediate: number | undefined): Promise<readonly VaultMemory[]> {
    const first = immediate === undefined ? coveredBy(row) + 1 : Math.max(1, row.count - immediate + 1);
    return first > row.count ? [] : log.memories(first, row.count);
  }
  async function ownNotes(row: AgentRow | undefined): Promise<readonly Note[]> {
    const entries = await log.entriesAt(row?.note_seqs ?? []);
    return entries.flatMap(({ body }) => (body.kind === "note_added" ? [body] : []));
  }
}

function remakingText(
  { outcome, summaries, kept_before, kept_remade = 0, reason = "" }: Remaking,
  quality: LongtermQuality | undefined,
): string {
  const of = `${summaries} short-term summaries`;
  switch (outcome) {
    case "remade":
      return `Long-term summary made anew of ${of} (${kept_before} specifics before, ${kept_remade} now)`;
    case "not_needed":
      return `Long-term summary held against ${of} (quality ${quality?.quality})`;
    case "not_better":
      return `Long-term summary made anew of ${of} is no better (${kept_before} specifics before, ${kept_remade} now)`;
    case "failed":
      return `Long-term summary not made anew of ${of} (${reason})`;
  }
}

function toItem({ number, content, created_at_ms, metadata }: VaultMemory) {
  const created_at = new Date(created_at_ms).toISOString();
  return { seq: number, content, created_at, ...(metadata === undefined ? {} : { metadata }) };
}

function textsOf({ longterm, recent }: AgentRow): Pick<AgentContext, "longterm_summary" | "recent_summary"> {
  return defined({ longterm_summary: longterm?.summary, recent_summary: recent?.summary });
}

function nothingToDo(row: AgentRow | undefined, { immediate }: Windows): string {
  if (row?.recent !== undefined) return `no memory has left the immediate window of ${immediate} since the last time`;
  return `no memory has left the immediate window of ${immediate} yet: there are ${row?.count ?? 0}`;
}

function statusOf(
  agent: string,
  row: AgentRow | undefined,
  { windows, isRunning }: { readonly windows: Windows; readonly isRunning: boolean },
): AgentStatus {
  const { recent, longterm, compacted_at_ms, last_error } = row ?? {};
  return {
    agent,
    count: row?.count ?? 0,
    notes: row?.note_seqs.length ?? 0,
    immediate_window: windows.immediate,
    recent_window: windows.recent,
    immediate_count: (row?.count ?? 0) - (recent?.to ?? 0),
    ...(row === undefined ? {} : textsOf(row)),
    ...(recent === undefined ? {} : { recent_range: { from_seq: recent.from, to_seq: recent.to } }),
    ...(longterm === undefined ? {} : { longterm_range: { from_seq: longterm.from, to_seq: longterm.to } }),
    compactions: row?.compactions ?? 0,
    ...(compacted_at_ms === undefined ? {} : { last_compaction_at: new Date(compacted_at_ms).toISOString() }),
    next_compaction_at: dueAt(row ?? {}, windows),
    compaction_due: row !== undefined && dueWaterfall(row, windows) !== undefined,
    compaction_running: isRunning,
    ...(last_error === undefined ? {} : { last_error }),
  };
}

interface Note {
  readonly title?: string | undefined;
  readonly content: string;
}

const NOTES_MAX = 5;
/** The newest shown memories, which describe the current topic. */
const MEMORIES_LOOKED_AT = 8;

/** Common words such as "of" weigh less. */
const WEIGHT_MIN = 0.5;

/** The notes that share words with the newest memories, best first. */
function relevantNotes(notes: readonly Note[], memories: readonly string[]): readonly string[] {
  if (notes.length === 0) return [];
  const weights = queryTerms(memories.slice(-MEMORIES_LOOKED_AT).join("\n"));
  const terms = notes.map(({ title = "", content }) => termsOf(`${title}\n${content}`));
  const holders = (term: string): number => terms.filter((own) => own.has(term)).length;
  return notes
    .map((note, at) => {
      const shared = [...(terms[at]?.keys() ?? [])].filter((term) => (weights.get(term) ?? 0) >= WEIGHT_MIN);
      // A word in every note does not distinguish them.
      return { note, score: shared.reduce((sum, term) => sum + Math.log(1 + notes.length / holders(term)), 0) };
    })
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, NOTES_MAX)
    .map(({ note }) => (note.title === undefined ? note.content : `${note.title}: ${note.content}`));
}
