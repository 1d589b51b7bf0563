import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Session } from "../src/client.ts";
import type { Compaction, SeqRange } from "../src/contract/compaction.ts";
import type { AgentEvent } from "../src/contract/event.ts";
import type { ModelCalls } from "../src/contract/model-call.ts";
import type { SessionHistory, SessionInfo } from "../src/contract/session-info.ts";
import { client, failed, has } from "./server.ts";
import { createSubAgents, isAboutQuestion, type SubAgents } from "./sub-agents.ts";
import { untilSeen, whenHidden } from "./tab-in-sight.ts";
import { type Remark, remarkOf } from "./transcript-remarks.ts";

/** A message of the history. */
export type Said = SessionHistory["messages"][number];
type Approvals = Awaited<ReturnType<ReturnType<typeof client>["listApprovals"]>>["approvals"];

/** What a turn that runs has said so far, before it is in the log. */
interface Live {
  readonly isAsking: boolean;
  readonly reasoning: string;
  readonly text: string;
  /** Names of tools that run, by the ids of their calls. */
  readonly tools: ReadonlyMap<string, string>;
}
const NOT_LIVE: Live = { isAsking: false, reasoning: "", text: "", tools: new Map() };

/** A session as this page knows it: the newest messages first, others as they are looked at, and what happens meanwhile. */
export interface SessionView {
  readonly id: string;
  readonly handle: Session;
  readonly info: Signal<SessionInfo | undefined>;
  /** Why there is nothing to show. */
  readonly problem: Signal<string | undefined>;
  /** Whether it hears what happens; not while the server is away. */
  readonly isHearing: Signal<boolean>;
  readonly count: Signal<number>;
  /** Grows whenever messages or remarks have come. */
  readonly version: Signal<number>;
  readonly live: Signal<Live>;
  /** Its own questions, and those of its sub-agents. */
  readonly approvals: Signal<Approvals>;
  readonly subAgents: SubAgents;
  readonly pins: Signal<ReadonlySet<number>>;
  readonly compactions: Signal<readonly Compaction[]>;
  readonly calls: Signal<ModelCalls>;
  /** Whether a message of the history is not shown to the model any more. */
  readonly hasLeft: ReadonlySignal<(seq: number) => boolean>;
  /** The message at a place of the history; one that is not there yet is asked for. */
  at(index: number): Said | undefined;
  /** The place of a message in the history, once it is known. */
  indexOf(seq: number): Promise<number | undefined>;
  /** The messages of ranges of seqs, the first `max` of them. */
  messagesIn(ranges: readonly SeqRange[], max: number): Promise<readonly Said[]>;
  /** What happened between two messages besides what was said. */
  remarksBetween(seq: number, next: number): readonly Remark[];
  /** Asks anew for what may have changed. */
  refresh(): Promise<void>;
  close(): void;
}

const NO_CALLS: ModelCalls = { calls: [], compactions: [] };

const PAGE = 100;
const AWAY_MS = 3_000;
const EVENT_PAGES_MAX = 10;

export function openSessionView(id: string): SessionView {
  const handle = client().session(id);
  const ending = new AbortController();
  const messages = new Map<number, Said>();
  const remarks = new Map<number, Remark>();
  const asked = new Set<number>();
  const info = signal<SessionInfo | undefined>(undefined);
  const problem = signal<string | undefined>(undefined);
  const isHearing = signal(true);
  const count = signal(0);
  const version = signal(0);
  const live = signal(NOT_LIVE);
  const approvals = signal<Approvals>([]);
  const subAgents = createSubAgents();
  const pins = signal<ReadonlySet<number>>(new Set());
  const compactions = signal<readonly Compaction[]>([]);
  const calls = signal<ModelCalls>(NO_CALLS);
  const hasLeft = computed(() => leaving(compactions.value, pins.value));
  /** What is said of the answer that streams is in the log by now. */
  let isSettled = false;
  /** There are calls of the model that are not known here; the server reads the whole log to size them. */
  let hasCalled = true;

  const loadPage = async (offset: number, limit: number): Promise<readonly Said[]> => {
    const page = await handle.history({ offset, limit });
    batch(() => {
      if (page.message_count < count.value) messages.clear();
      for (const [at, message] of page.messages.entries()) messages.set(offset + at, message);
      count.value = page.message_count;
      version.value += 1;
    });
    return page.messages;
  };

  /** Errors and interruptions of old turns, which only the events tell. */
  const loadRemarks = async (from: number, to: number): Promise<void> => {
    let after = from;
    for (let pages = 0; pages < EVENT_PAGES_MAX && after < to; pages += 1) {
      const { events, has_more } = await handle.listEvents({ after });
      for (const { cursor, payload, timestamp_ms } of events) note(cursor.sequence, payload, timestamp_ms);
      const last = events.at(-1);
      if (last === undefined || !has_more) break;
      after = last.cursor.sequence;
    }
    version.value += 1;
  };

  const note = (seq: number, event: AgentEvent, atMs: number): void => {
    const remark = remarkOf(event);
    subAgents.hear(seq, event);
    if (remark !== undefined && seq !== 0) remarks.set(seq, { ...remark, seq, atMs });
  };

  const want = (index: number): void => {
    const page = Math.floor(index / PAGE);
    if (asked.has(page)) return;
    asked.add(page);
    loadPage(page * PAGE, PAGE)
      .then((said) => loadRemarks((said[0]?.seq ?? 1) - 1, said.at(-1)?.seq ?? 0))
      .catch((thrown: unknown) => {
        asked.delete(page);
        problem.value = failed(thrown);
      });
  };

  const readTail = async (): Promise<void> => {
    const read = await client().readSession(id);
    info.value = read;
    // Rewritten, perhaps: what is known by its place may be something else now.
    if (read.message_count < count.value) {
      messages.clear();
      asked.clear();
    }
    const known = Math.min(count.value, read.message_count);
    if (read.message_count > known) await loadPage(Math.max(known, read.message_count - PAGE), PAGE);
    count.value = read.message_count;
  };

  const readAround = async (): Promise<void> => {
    const areCallsOld = hasCalled;
    hasCalled = false;
    const [waiting, pinned, made, called] = await Promise.all([
      Promise.all([id, ...subAgents.running()].map((sessionId) => client().listApprovals({ sessionId }))),
      has("session_compaction") ? handle.pins() : undefined,
      has("session_compaction") ? handle.compactions() : undefined,
      areCallsOld ? handle.modelCalls() : undefined,
    ]);
    batch(() => {
      approvals.value = waiting.flatMap((one) => one.approvals);
      pins.value = new Set(pinned?.pins ?? []);
      compactions.value = made ?? [];
      if (called !== undefined) calls.value = called;
    });
  };

  /** One at a time, and once more after it for what happened meanwhile. */
  const refresh = coalesced(async () => {
    const wasSettled = isSettled;
    await readTail();
    batch(() => {
      // What streamed before is a message now; what has streamed since is of the next.
      if (wasSettled && isSettled) {
        isSettled = false;
        live.value = { ...live.value, text: "", reasoning: "" };
      }
      if (info.value?.state !== "running") live.value = NOT_LIVE;
    });
    await readAround();
    problem.value = undefined;
  });

  const hear = (event: AgentEvent): void => {
    switch (event.type) {
      case "text_delta":
        live.value = { ...live.value, isAsking: false, text: (isSettled ? "" : live.value.text) + event.delta };
        isSettled = false;
        return;
      case "reasoning_delta":
        live.value = { ...live.value, isAsking: false, reasoning: live.value.reasoning + event.delta };
        return;
      case "tool_execution_started":
        live.value = { ...live.value, tools: new Map(live.value.tools).set(event.id, event.name) };
        return;
      case "tool_execution_completed": {
        const tools = new Map(live.value.tools);
        tools.delete(event.id);
        live.value = { ...live.value, tools };
        break;
      }
      case "sub_agent_event":
        if (!isAboutQuestion(event)) return;
        break;
      case "turn_started":
        live.value = { ...live.value, isAsking: true };
        break;
      case "retrying":
        live.value = NOT_LIVE;
        break;
      case "text_complete":
      case "tool_call_requested":
        isSettled = true;
        break;
      case "turn_completed":
      case "run_completed":
      case "run_failed":
        isSettled = true;
        hasCalled = true;
        break;
      case "compaction_completed":
      case "context_evicted":
        hasCalled = true;
        break;
      case "transcript_rewrite_committed":
        messages.clear();
        remarks.clear();
        asked.clear();
        count.value = 0;
        break;
    }
    refresh().catch(() => {}); // Whoever follows tells that the server is away.
  };

  /**
   * Hears what happens until the view is closed; a server that is away is asked again and again. A browser has six
   * connections to a server for all of its tabs: one that nobody looks at holds none, or a seventh would not even load.
   */
  const follow = async (from: number, known: number): Promise<void> => {
    let seen = from;
    while (!ending.signal.aborted) {
      const signal = AbortSignal.any([ending.signal, whenHidden(ending.signal)]);
      try {
        for await (const { seq, event, timestamp_ms } of handle.events({ after: seen, signal })) {
          if (seq !== 0) seen = seq;
          note(seq, event, timestamp_ms);
          if (seq !== 0 && seq <= known) version.value += 1;
          else if (event.type === "stream_truncated") await comeBack();
          else hear(event);
        }
        if (info.value?.state === "archived" && !signal.aborted) return;
      } catch (thrown) {
        if (!signal.aborted) {
          failed(thrown);
          isHearing.value = false;
        }
      }
      if (ending.signal.aborted) return;
      if (!signal.aborted) {
        await pause(AWAY_MS, ending.signal);
        // A server that is there again may have nothing to tell for hours.
        if (!isHearing.value && !ending.signal.aborted) await comeBack();
        continue;
      }
      // What streams meanwhile is not told again; it is read whole once it is in the log.
      live.value = NOT_LIVE;
      await untilSeen(ending.signal);
      if (!ending.signal.aborted) await comeBack();
    }
  };

  const comeBack = async (): Promise<void> => {
    try {
      await refresh();
      isHearing.value = true;
    } catch (thrown) {
      failed(thrown);
      isHearing.value = false;
    }
  };

  const indexOf = async (seq: number): Promise<number | undefined> => {
    const placed = () => [...messages].find(([, said]) => said.seq === seq)?.[0];
    // Seqs grow along the history, and so a place is found in a few looks, without all that lies between.
    let low = 0;
    let high = count.value - 1;
    while (low <= high && placed() === undefined) {
      const middle = (low + high) >> 1;
      const said = messages.get(middle) ?? (await loadPage(Math.floor(middle / PAGE) * PAGE, PAGE))[middle % PAGE];
      if (said === undefined) break;
      if (said.seq < seq) low = middle + 1;
      else high = middle - 1;
    }
    // After a rewrite they do not always.
    for (let offset = 0; offset < count.value && placed() === undefined; offset += PAGE) {
      if (!messages.has(offset)) await loadPage(offset, PAGE);
    }
    return placed();
  };

  const start = async (): Promise<void> => {
    try {
      const scope = { type: "session" as const, session_id: id };
      // Asked before the messages: what is told up to there is in them.
      const { cursor } = await client().dispatch("readEventCursor", { scope });
      await readTail();
      const oldest = messages.get(Math.max(0, count.value - PAGE));
      // What was said last is told again, so that what befell it is known too.
      follow((oldest?.seq ?? 1) - 1, cursor.sequence);
      await readAround();
    } catch (thrown) {
      problem.value = failed(thrown);
    }
  };
  start();

  return {
    id,
    handle,
    info,
    problem,
    isHearing,
    count,
    version,
    live,
    approvals,
    subAgents,
    pins,
    compactions,
    calls,
    hasLeft,
    at: (index) => {
      const found = messages.get(index);
      if (found === undefined) queueMicrotask(() => want(index));
      return found;
    },
    indexOf,
    messagesIn: async (ranges, max) => {
      const found: Said[] = [];
      for (const { from_seq, to_seq } of ranges) {
        for (let index = (await indexOf(from_seq)) ?? 0; index < count.value && found.length < max; index += 1) {
          const said = messages.get(index) ?? (await loadPage(index, PAGE))[0];
          if (said === undefined || said.seq > to_seq) break;
          if (said.seq >= from_seq) found.push(said);
        }
      }
      return found;
    },
    remarksBetween: (seq, next) =>
      [...remarks.values()].filter((one) => one.seq > seq && one.seq < next).sort((one, other) => one.seq - other.seq),
    refresh: async () => {
      // Whoever asks has changed something, perhaps what a bar or a mark is about.
      hasCalled = true;
      await refresh();
    },
    close: () => ending.abort("left"),
  };
}

type Test = (seq: number) => boolean;

/** Which messages are not shown to the model any more: what compactions that stand took out, and nothing brought back. */
function leaving(compactions: readonly Compaction[], pins: ReadonlySet<number>): Test {
  const standing = compactions.filter(({ undone }) => !undone);
  const newest = standing.at(-1);
  if (newest === undefined) return () => false;
  const out = standing.flatMap(({ discarded }) => discarded);
  const back = [...newest.expanded, ...newest.kept];
  const isIn = (ranges: readonly SeqRange[], seq: number): boolean =>
    ranges.some(({ from_seq, to_seq }) => from_seq <= seq && seq <= to_seq);
  return (seq) => isIn(out, seq) && !isIn(back, seq) && !pins.has(seq);
}

function coalesced(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  return () => {
    if (running === undefined) {
      running = work().finally(() => {
        running = undefined;
      });
      return running;
    }
    next ??= running
      .catch(() => {})
      .then(() => {
        next = undefined;
        running = work().finally(() => {
          running = undefined;
        });
        return running;
      });
    return next;
  };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
