import { batch, computed, signal } from "@preact/signals";
import { describeEvent, type EventLine } from "@rkat/client/browser";
import type { Compaction, SeqRange } from "@rkat/core/contract/compaction";
import type { AgentEvent } from "@rkat/core/contract/event";
import type { OperationOutput } from "@rkat/core/contract/operations";
import type { ModelCalls, SessionHistory, SessionInfo } from "@rkat/core/contract/session-info";
import { call, client, handleError, hasCapability } from "./server.ts";
import { createSubAgents, isAboutApproval } from "./sub-agents.ts";

export type Message = SessionHistory["messages"][number];
type Approvals = OperationOutput<"listApprovals">["approvals"];
type Inbox = OperationOutput<"readInbox">["messages"];

/** What a running turn has streamed and the log does not contain yet. */
interface Live {
  readonly isWaiting: boolean;
  readonly reasoning: string;
  readonly text: string;
  /** Names of the running tools, by the ids of their calls. */
  readonly tools: ReadonlyMap<string, string>;
}
const NOT_LIVE: Live = { isWaiting: false, reasoning: "", text: "", tools: new Map() };

const PAGE = 100;
const RETRY_MS = 3_000;
const EVENT_PAGES_MAX = 10;

export type SessionView = ReturnType<typeof openSessionView>;

/** Opens a session: loads the newest messages, others when they scroll into view, and receives live updates. */
export function openSessionView(id: string) {
  const handle = client().session(id);
  const scope = { type: "session", session_id: id };
  const closing = new AbortController();
  const messages = new Map<number, Message>();
  const remarks = new Map<number, Remark>();
  /** Durations of tool calls in milliseconds, by the ids of the calls. */
  const durations = new Map<string, number>();
  /** When the first token of a model call arrived, by the seq of the call; only live events tell it. */
  const firstTokens = new Map<number, number>();
  let callSeq = 0;
  const requestedPages = new Set<number>();
  const info = signal<SessionInfo | undefined>(undefined);
  const problem = signal<string | undefined>(undefined);
  /** Whether the page receives events; false while the server is unreachable. */
  const isConnected = signal(true);
  const count = signal(0);
  /** Incremented whenever messages or remarks are loaded. */
  const version = signal(0);
  const live = signal(NOT_LIVE);
  /** Pending approvals of this session and of its sub-agents. */
  const approvals = signal<Approvals>([]);
  /** Messages that wait until the session is free. */
  const inbox = signal<Inbox>([]);
  const subAgents = createSubAgents();
  const pins = signal<ReadonlySet<number>>(new Set());
  const compactions = signal<readonly Compaction[]>([]);
  const calls = signal<ModelCalls>({ calls: [], compactions: [] });
  /** Whether compactions removed the message with a given seq from the context. */
  const isRemoved = computed(() => removedTest(compactions.value, pins.value));
  /** Whether the log contains what has streamed so far. */
  let isLogged = false;
  /** Whether there are new model calls. They are read only then: the server reads the whole log for it. */
  let areCallsStale = true;

  const loadPage = async (offset: number, limit: number): Promise<readonly Message[]> => {
    const page = await call("readHistory", { session_id: id, offset, limit });
    batch(() => {
      if (page.message_count < count.value) messages.clear();
      for (const [at, message] of page.messages.entries()) messages.set(offset + at, message);
      count.value = page.message_count;
      version.value += 1;
    });
    return page.messages;
  };

  /** Errors and interruptions of past turns are in the events, not in the messages. */
  const loadRemarks = async (from: number, to: number): Promise<void> => {
    let after = from;
    for (let pages = 0; pages < EVENT_PAGES_MAX && after < to; pages += 1) {
      const { events, has_more } = await call("listEvents", { scope, cursor: { scope, sequence: after } });
      for (const { cursor, payload, timestamp_ms } of events) recordEvent(cursor.sequence, payload, timestamp_ms);
      const last = events.at(-1);
      if (last === undefined || !has_more) break;
      after = last.cursor.sequence;
    }
    version.value += 1;
  };

  const recordEvent = (seq: number, event: AgentEvent, atMs: number): void => {
    const remark = remarkOf(event);
    subAgents.handleEvent(seq, event);
    if (event.type === "tool_execution_completed") durations.set(event.id, event.duration_ms);
    if (event.type === "turn_started") callSeq = seq;
    const isToken = event.type === "text_delta" || event.type === "reasoning_delta";
    if (isToken && !firstTokens.has(callSeq)) firstTokens.set(callSeq, atMs);
    if (remark !== undefined && seq !== 0) remarks.set(seq, { ...remark, seq, atMs });
  };

  const loadAround = (index: number): void => {
    const page = Math.floor(index / PAGE);
    if (requestedPages.has(page)) return;
    requestedPages.add(page);
    loadPage(page * PAGE, PAGE)
      .then((loaded) => loadRemarks((loaded[0]?.seq ?? 1) - 1, loaded.at(-1)?.seq ?? 0))
      .catch((thrown: unknown) => {
        requestedPages.delete(page);
        problem.value = handleError(thrown);
      });
  };

  const readTail = async (): Promise<void> => {
    const read = await call("readSession", { session_id: id });
    info.value = read;
    // The transcript may have been rewritten, so the loaded messages may be at other indexes now.
    if (read.message_count < count.value) {
      messages.clear();
      requestedPages.clear();
    }
    const known = Math.min(count.value, read.message_count);
    if (read.message_count > known) await loadPage(Math.max(known, read.message_count - PAGE), PAGE);
    count.value = read.message_count;
  };

  const readDetails = async (): Promise<void> => {
    const readsCalls = areCallsStale;
    areCallsStale = false;
    const [pending, waiting, pinned, compacted, called] = await Promise.all([
      Promise.all([id, ...subAgents.running()].map((sessionId) => call("listApprovals", { session_id: sessionId }))),
      call("readInbox", { session_id: id }),
      hasCapability("session_compaction") ? handle.pins() : undefined,
      hasCapability("session_compaction") ? call("listCompactions", { session_id: id }) : undefined,
      readsCalls ? call("listModelCalls", { session_id: id }) : undefined,
    ]);
    batch(() => {
      approvals.value = pending.flatMap((one) => one.approvals);
      inbox.value = waiting.messages;
      pins.value = new Set(pinned?.pins ?? []);
      compactions.value = compacted?.compactions ?? [];
      if (called !== undefined) calls.value = called;
    });
  };

  /** Runs once at a time, and once more afterwards if it was called meanwhile. */
  const refresh = coalesced(async () => {
    const wasLogged = isLogged;
    await readTail();
    batch(() => {
      // The streamed text is a message now; later deltas belong to the next message.
      if (wasLogged && isLogged) {
        isLogged = false;
        live.value = { ...live.value, text: "", reasoning: "" };
      }
      if (info.value?.state !== "running") live.value = NOT_LIVE;
    });
    await readDetails();
    problem.value = undefined;
  });

  /** Deltas that are not shown yet: they are shown once per frame, however many there are. */
  let waiting = { text: "", reasoning: "" };
  const showDeltas = (): void => {
    const { text, reasoning } = waiting;
    waiting = { text: "", reasoning: "" };
    if (text === "" && reasoning === "") return;
    const { value } = live;
    live.value = { ...value, isWaiting: false, text: value.text + text, reasoning: value.reasoning + reasoning };
  };
  const addDelta = (kind: keyof typeof waiting, delta: string): void => {
    if (waiting.text === "" && waiting.reasoning === "") requestAnimationFrame(showDeltas);
    waiting[kind] += delta;
  };

  const handleEvent = (event: AgentEvent): void => {
    switch (event.type) {
      case "text_delta":
        if (isLogged) live.value = { ...live.value, text: "" };
        isLogged = false;
        addDelta("text", event.delta);
        return;
      case "reasoning_delta":
        addDelta("reasoning", event.delta);
        return;
      case "tool_execution_started":
        live.value = { ...live.value, tools: new Map(live.value.tools).set(event.id, event.name) };
        return;
      case "tool_execution_completed":
        live.value = { ...live.value, tools: new Map([...live.value.tools].filter(([id]) => id !== event.id)) };
        break;
      case "sub_agent_event":
        if (!isAboutApproval(event)) return;
        break;
      case "turn_started":
        live.value = { ...live.value, isWaiting: true };
        break;
      case "retrying":
      case "turn_adopted":
        waiting = { text: "", reasoning: "" };
        live.value = NOT_LIVE;
        break;
      case "text_complete":
      case "tool_call_requested":
        showDeltas();
        isLogged = true;
        break;
      case "turn_completed":
      case "run_completed":
      case "run_failed":
        showDeltas();
        isLogged = true;
        areCallsStale = true;
        break;
      case "compaction_completed":
      case "context_evicted":
        areCallsStale = true;
        break;
      case "transcript_rewrite_committed":
        messages.clear();
        remarks.clear();
        requestedPages.clear();
        count.value = 0;
        break;
    }
    refresh().catch(() => {}); // followEvents reports a lost connection.
  };

  /**
   * Receives events until the view is closed, and reconnects when the connection is lost. A browser allows six
   * connections to a server for all of its tabs, so a hidden tab keeps none; otherwise a seventh tab would not load.
   */
  const followEvents = async (from: number, known: number): Promise<void> => {
    let seen = from;
    while (!closing.signal.aborted) {
      const signal = AbortSignal.any([closing.signal, whenHidden(closing.signal)]);
      try {
        for await (const { seq, event, timestamp_ms } of handle.events({ after: seen, signal })) {
          if (seq !== 0) seen = seq;
          recordEvent(seq, event, timestamp_ms);
          if (seq !== 0 && seq <= known) version.value += 1;
          else if (event.type === "stream_truncated") await resync();
          else handleEvent(event);
        }
        if (info.value?.state === "archived" && !signal.aborted) return;
      } catch (thrown) {
        if (!signal.aborted) {
          handleError(thrown);
          isConnected.value = false;
        }
      }
      if (closing.signal.aborted) return;
      if (!signal.aborted) {
        await pause(RETRY_MS, closing.signal);
        // A server that is back may send no event for hours.
        if (!isConnected.value && !closing.signal.aborted) await resync();
        continue;
      }
      // Missed deltas are not sent again; the message is read once the log contains it.
      live.value = NOT_LIVE;
      await untilVisible(closing.signal);
      if (!closing.signal.aborted) await resync();
    }
  };

  const resync = async (): Promise<void> => {
    try {
      await refresh();
      isConnected.value = true;
    } catch (thrown) {
      handleError(thrown);
      isConnected.value = false;
    }
  };

  const indexOf = async (seq: number): Promise<number | undefined> => {
    const known = () => [...messages].find(([, message]) => message.seq === seq)?.[0];
    // Binary search: seqs increase along the history, so that only a few pages are loaded.
    let low = 0;
    let high = count.value - 1;
    while (low <= high && known() === undefined) {
      const middle = (low + high) >> 1;
      const message = messages.get(middle) ?? (await loadPage(Math.floor(middle / PAGE) * PAGE, PAGE))[middle % PAGE];
      if (message === undefined) break;
      if (message.seq < seq) low = middle + 1;
      else high = middle - 1;
    }
    // After a rewrite they may not increase: search every page.
    for (let offset = 0; offset < count.value && known() === undefined; offset += PAGE) {
      if (!messages.has(offset)) await loadPage(offset, PAGE);
    }
    return known();
  };

  const start = async (): Promise<void> => {
    try {
      // Read before the messages, which therefore include all events up to this cursor.
      const { cursor } = await call("readEventCursor", { scope });
      await readTail();
      const oldest = messages.get(Math.max(0, count.value - PAGE));
      // The events of the loaded messages are replayed for their remarks.
      followEvents((oldest?.seq ?? 1) - 1, cursor.sequence);
      await readDetails();
    } catch (thrown) {
      problem.value = handleError(thrown);
    }
  };
  start();

  return {
    id,
    handle,
    info,
    problem,
    isConnected,
    count,
    version,
    live,
    approvals,
    inbox,
    subAgents,
    pins,
    compactions,
    calls,
    isRemoved,
    /** The message at an index of the history; if it is not loaded yet, it is requested. */
    at: (index: number): Message | undefined => {
      const found = messages.get(index);
      if (found === undefined) queueMicrotask(() => loadAround(index));
      return found;
    },
    indexOf,
    firstTokenOf: (seq: number): number | undefined => firstTokens.get(seq),
    durationOf: (callId: string): number | undefined => durations.get(callId),
    /** The messages of ranges of seqs, the first `max` of them. */
    messagesIn: async (ranges: readonly SeqRange[], max: number): Promise<readonly Message[]> => {
      const found: Message[] = [];
      for (const { from_seq, to_seq } of ranges) {
        for (let index = (await indexOf(from_seq)) ?? 0; index < count.value && found.length < max; index += 1) {
          const message = messages.get(index) ?? (await loadPage(index, PAGE))[0];
          if (message === undefined || message.seq > to_seq) break;
          if (message.seq >= from_seq) found.push(message);
        }
      }
      return found;
    },
    remarksBetween: (seq: number, next: number): readonly Remark[] =>
      [...remarks.values()].filter((one) => one.seq > seq && one.seq < next).sort((one, other) => one.seq - other.seq),
    /** Reloads what may have changed after the caller changed something. */
    refresh: async (): Promise<void> => {
      areCallsStale = true;
      await refresh();
    },
    close: (): void => closing.abort("closed"),
  };
}

export function isIn(ranges: readonly SeqRange[], seq: number): boolean {
  return ranges.some(({ from_seq, to_seq }) => from_seq <= seq && seq <= to_seq);
}

/** Tests for messages that compactions removed and that were neither pinned nor brought back. */
function removedTest(compactions: readonly Compaction[], pins: ReadonlySet<number>): (seq: number) => boolean {
  const active = compactions.filter(({ undone }) => !undone);
  const newest = active.at(-1);
  if (newest === undefined) return () => false;
  const removed = active.flatMap(({ discarded }) => discarded);
  const present = [...newest.expanded, ...newest.kept];
  return (seq) => isIn(removed, seq) && !isIn(present, seq) && !pins.has(seq);
}

function coalesced(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  const run = (): Promise<void> => {
    running = work().finally(() => {
      running = undefined;
    });
    return running;
  };
  return () => {
    if (running === undefined) return run();
    next ??= running
      .catch(() => {})
      .then(() => {
        next = undefined;
        return run();
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

function whenHidden(closing: AbortSignal): AbortSignal {
  const hidden = new AbortController();
  const check = (): void => {
    if (document.visibilityState === "hidden") hidden.abort("hidden");
  };
  document.addEventListener("visibilitychange", check, { signal: AbortSignal.any([closing, hidden.signal]) });
  check();
  return hidden.signal;
}

/** Resolves when the tab is visible, or on abort. */
function untilVisible(signal: AbortSignal): Promise<void> {
  if (document.visibilityState !== "hidden") return Promise.resolve();
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", () => resolve(), { once: true, signal });
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** An incident of a turn, as a sentence between messages. */
interface Remark {
  readonly seq: number;
  readonly atMs: number;
  readonly tone: EventLine["tone"];
  readonly text: string;
}

/** The sentence for an event; undefined for what the messages say themselves, or the card of a sub-agent. */
function remarkOf(event: AgentEvent): Pick<Remark, "tone" | "text"> | undefined {
  const { level, tone, text } = describeEvent(event);
  if (level === "piece" || level === "step" || event.type.startsWith("sub_agent_")) return undefined;
  return { tone, text: `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?…]$/.test(text) ? "" : "."}` };
}
