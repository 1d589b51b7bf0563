import { createHash } from "node:crypto";
import type { Entry, EntryBody, EntryBodyOf } from "../contract/entry.ts";
import { invalid } from "../contract/error.ts";
import type { Message } from "../contract/message.ts";
import type { OperationInput } from "../contract/operations.ts";
import { CreateSession } from "../contract/session.ts";
import type { SessionRow } from "../ports/store.ts";
import type { CallContext, Service } from "../runtime/dispatch.ts";
import type { LiveSessions } from "../sessions/live-sessions.ts";
import { takeContent } from "../sessions/media.ts";
import { settleSettings } from "../sessions/session-settings.ts";
import { seenBy } from "../sessions/turn-input.ts";
import type { Current } from "../sessions/turn-operations.ts";
import type { FixedParts } from "../sessions/turn-runner.ts";
import { activeCompaction, advanceCadence, isIn, messagesOf, type Placed, rangesOf } from "../state/context.ts";
import { toNewEntries } from "../state/entry-events.ts";
import { dated, planRewrite } from "../state/plan-rewrite.ts";
import { saidIn } from "../state/rewrites.ts";
import { applyUnshown, foldLongSession, showAnew, type WholeState } from "../state/whole-state.ts";
import { type Redact, redactSlowly } from "../turn/redact.ts";
import { estimateTokens } from "../turn/tokens.ts";
import { asUuid } from "./portable-log.ts";

type Importing = OperationInput<"importHistory">;
type Undated = Importing["history"][number];
type Mark = Importing["compactions"][number];

interface ImportParts extends Pick<FixedParts, "store" | "clock" | "hash" | "redact" | "memory"> {
  readonly live: LiveSessions;
}

/** The id of the session that a conversation of another program becomes: the same at every import. */
export function importedSessionId(source: string, sourceId: string): string {
  return asUuid(
    createHash("sha256")
      .update(JSON.stringify(["import", source, sourceId]))
      .digest("hex"),
  );
}

/** The operation that imports a conversation of another program, and later what was added to it. */
export function createHistoryImports(parts: ImportParts, current: Current): Pick<Service, "importHistory"> {
  const { store, live, memory } = parts;
  return {
    importHistory: async (given, call) => {
      const session_id = importedSessionId(given.source, given.source_id);
      const input = { ...given, history: await asKept(parts, given.history) };
      const hold = await store.locks.hold(session_id);
      try {
        const row = await store.sessions.get(session_id);
        if (row === undefined) await begin(parts, current(), { input, call, session_id });
        const state = await readState(parts, session_id);
        const stop = row && (await whyLeftAlone(parts, row, state, input));
        const done = stop === undefined ? await catchUp(parts, state, input) : NOTHING;
        if (done.added > 0 || done.compactions > 0) memory?.indexLater(state);
        const messages = importedIn(state).length;
        return { session_id, messages, ...done, ...(stop?.reason === undefined ? {} : { skipped: stop.reason }) };
      } finally {
        await hold.release();
        await live.renew(session_id);
      }
    },
  };
}

const NOTHING = { added: 0, replaced: 0, compactions: 0 };
const ENTRIES_MAX = Number.MAX_SAFE_INTEGER;

async function readState({ store, clock }: ImportParts, id: string): Promise<WholeState> {
  return foldLongSession(id, await store.log.read(id, 1, ENTRIES_MAX), clock.yieldToEventLoop);
}

/** Messages as the log keeps them: without secrets, with their media as blobs, and marked as imported. */
async function asKept(
  { store, clock, redact }: ImportParts,
  given: Importing["history"],
): Promise<Importing["history"]> {
  const kept: Undated[] = [];
  for (const [at, one] of given.entries()) {
    const message = await redactAll(one, redact, clock.yieldToEventLoop);
    if (message.role === "system" || message.role === "system_notice") {
      throw invalid(`history[${at}].role: write a message of a user, of the model or of tools; it is ${message.role}`);
    }
    if (message.role === "tool_results") kept.push(message);
    else if (message.role === "block_assistant") kept.push({ ...message, origin: "import" });
    else {
      const field = `history[${at}].content`;
      const content = await takeContent(message.content, { blobs: store.blobs, model: undefined, field });
      kept.push({ ...message, content, origin: "import" });
    }
    await clock.yieldToEventLoop();
  }
  return kept;
}

/** Texts longer than this are redacted in pieces. */
const PIECE_CHARS_MAX = 64 * 1_024;

/** A value with all its texts and names redacted, except for the bytes of media. */
async function redactAll<T>(value: T, redact: Redact, yieldToEventLoop: () => unknown): Promise<T> {
  const walk = async (one: unknown, isMedia: boolean): Promise<unknown> => {
    if (typeof one === "string") {
      if (isMedia) return one;
      return one.length > PIECE_CHARS_MAX
        ? redactSlowly(redact, one, async () => void yieldToEventLoop())
        : redact(one);
    }
    if (Array.isArray(one)) return Promise.all(one.map((part) => walk(part, false)));
    if (typeof one !== "object" || one === null) return one;
    const isInline = "source" in one && one.source === "inline";
    const fields = Object.entries(one).map(async ([name, field]) => {
      return [redact(name), await walk(field, isInline && name === "data")] as const;
    });
    return Object.fromEntries(await Promise.all(fields));
  };
  // `as`: only the content of texts has changed.
  return (await walk(value, false)) as T;
}

interface Beginning {
  readonly input: Importing;
  readonly call: CallContext;
  readonly session_id: string;
}

async function begin(parts: ImportParts, began: ReturnType<Current>, { input, call, session_id }: Beginning) {
  if (input.after > 0) throw invalid("after: nothing of the conversation is there; begin with its first message");
  const { source, source_id, parent_id, system_prompt } = input;
  const parent = parent_id === undefined ? {} : { parent: importedSessionId(source, parent_id) };
  const labels = { ...input.labels, ...parent, imported_from: source, imported_id: source_id };
  const named = { ...(input.model === undefined ? {} : { model: input.model }) };
  const asked = CreateSession.parse({
    initial_turn: "deferred",
    labels,
    ...named,
    ...(system_prompt === undefined ? {} : { system_prompt: parts.redact(system_prompt) }),
  });
  // An import needs no key of a model: the session then waits for `-m`.
  const model = await began.models.resolve(input.model, undefined).catch((thrown: unknown) => {
    if (input.model !== undefined) throw thrown;
    return began.models.resolve("offline", undefined);
  });
  const settings = seenBy(call.caller, settleSettings(asked, model, began.defaults));
  const [first] = input.history;
  const atMs = timeOf(first?.created_at) ?? parts.clock.now();
  await parts.store.log.append(session_id, 0, toNewEntries([{ kind: "session_created", settings }]), atMs);
}

function timeOf(at: string | undefined): number | undefined {
  return at === undefined ? undefined : Math.max(0, Date.parse(at));
}

/** The messages of the conversation that are there: notices of this runtime are none of it. */
function importedIn({ transcript }: Pick<WholeState, "transcript">): readonly Placed[] {
  return saidIn(transcript).filter(({ message }) => message.role !== "system_notice");
}

/** A session that is not touched, and the reason, if the conversation has more than was imported. */
async function whyLeftAlone(
  { store }: ImportParts,
  row: SessionRow,
  state: WholeState,
  { after, history }: Importing,
): Promise<{ readonly reason: string | undefined } | undefined> {
  const id = state.sessionId;
  if (row.forgotten_whole === true) return { reason: `session ${id} was forgotten, and an import does not restore it` };
  const isRewritten = state.rewrites.some(({ commit }) => commit.reason.kind !== IMPORT);
  const isContinued = state.turnsOpened > 0 || isRewritten;
  if (!isContinued && !row.archived) return undefined;
  const entries = await store.log.read(id, 1, ENTRIES_MAX);
  const hasAll = after + history.length <= entries.filter(({ body }) => body.kind === "imported").length;
  if (hasAll) return { reason: undefined };
  return { reason: isContinued ? `session ${id} was continued or changed here` : `session ${id} is archived` };
}

/** The reason that a rewrite by an import names. */
const IMPORT = "import";

interface Added {
  readonly added: number;
  readonly replaced: number;
  readonly compactions: number;
}

/** Appends what the session lacks. Messages that differ from an earlier import are replaced by a rewrite. */
async function catchUp(parts: ImportParts, state: WholeState, input: Importing): Promise<Added> {
  const { after, history } = input;
  const there = importedIn(state);
  if (after > there.length) throw invalid(`after: the session has ${there.length} messages; go on from there`);
  let same = 0;
  while (same < history.length && isSame(there[after + same], history[same], state)) same += 1;
  const differing = same < history.length ? there.slice(after + same) : [];
  const messages = datedAll(history.slice(same), there[after + same - 1]?.message.created_at, parts);
  requireGrammar(await grammar(), [...messagesOf(there.slice(0, after + same)), ...messages], input);
  const marks = input.compactions
    .toSorted((a, b) => a.at - b.at)
    .filter((mark) => !state.compactions.some(({ body }) => body.compaction_id === compactionId(state, mark)))
    .filter(({ at }) => at >= after + same && at <= after + history.length);
  const log = appendingTo(parts, state);
  if (differing.length > 0) await log([rewriteOf(parts, state, { differing, messages, input })]);
  let done = differing.length > 0 ? messages.length : 0;
  for (const mark of marks) {
    const upTo = Math.max(done, mark.at - after - same);
    await log(messages.slice(done, upTo).map(importedBody));
    done = upTo;
    await log([await compactedBy(parts, state, { mark, source: input.source })]);
  }
  await log(messages.slice(done).map(importedBody));
  return { added: messages.length, replaced: differing.length, compactions: marks.length };
}

const grammar = async () => (await import("../compaction/grammar.ts")).grammarFaults;

function importedBody(message: Message): EntryBody {
  return { kind: "imported", message };
}

/** A message that was erased here stays erased. */
function isSame(placed: Placed | undefined, given: Undated | undefined, { holes }: WholeState): boolean {
  if (placed === undefined || given === undefined) return false;
  return isIn(holes, placed.seq) || textForm(placed.message) === textForm(dated(given, placed.message.created_at));
}

/** With its fields in a fixed order. */
function textForm(value: unknown): string {
  return JSON.stringify(value, (_key, field: unknown) => {
    if (typeof field !== "object" || field === null || Array.isArray(field)) return field;
    return Object.fromEntries(Object.entries(field).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

/** A message without a time has the time of the one before it. */
function datedAll(given: readonly Undated[], before: string | undefined, { clock }: ImportParts): readonly Message[] {
  let now = before ?? new Date(clock.now()).toISOString();
  return given.map((one) => {
    const message = dated(one, now);
    now = message.created_at;
    return message;
  });
}

type Grammar = Awaited<ReturnType<typeof grammar>>;

/** Refuses a conversation that some provider would reject; calls at its end may still get their results. */
function requireGrammar(faultsIn: Grammar, messages: readonly Message[], { after }: Importing): void {
  const last = messages.at(-1);
  const isOpen = last?.role === "block_assistant" && last.blocks.some((block) => block.block_type === "tool_use");
  const [fault] = faultsIn(isOpen ? messages.slice(0, -1) : messages);
  if (fault === undefined) return;
  const where = fault.at < after ? `message ${fault.at} of the conversation` : `history[${fault.at - after}]`;
  throw invalid(`${where}: ${fault.grammar} would reject the conversation: ${fault.fault}`);
}

const BATCH_ENTRIES_MAX = 200;
const BATCH_CHARS_MAX = 1_024 * 1_024;

/** Appends to the log and to the folded state, a batch at a time; a batch has the time of its last message. */
function appendingTo({ store, clock }: ImportParts, state: WholeState) {
  const append = async (bodies: readonly EntryBody[]): Promise<void> => {
    if (bodies.length === 0) return;
    const last = bodies.findLast((body) => body.kind === "imported");
    const atMs = Math.max(state.updatedAtMs, timeOf(last?.message.created_at) ?? 0);
    const entries: readonly Entry[] = await store.log.append(
      state.sessionId,
      state.lastSeq,
      toNewEntries(bodies),
      atMs,
    );
    for (const entry of entries) {
      applyUnshown(state, entry);
      await clock.yieldToEventLoop();
    }
    showAnew(state);
  };
  return async (bodies: readonly EntryBody[]): Promise<void> => {
    let batch: EntryBody[] = [];
    let chars = 0;
    for (const body of bodies) {
      const own = JSON.stringify(body).length;
      if (batch.length === BATCH_ENTRIES_MAX || chars + own > BATCH_CHARS_MAX) {
        await append(batch);
        [batch, chars] = [[], 0];
      }
      batch.push(body);
      chars += own;
    }
    await append(batch);
  };
}

interface Differing {
  readonly differing: readonly Placed[];
  readonly messages: readonly Message[];
  readonly input: Importing;
}

function rewriteOf(
  { clock, hash }: ImportParts,
  state: WholeState,
  { differing, messages, input }: Differing,
): EntryBody {
  const start = state.transcript.findIndex(({ seq }) => seq === differing[0]?.seq);
  const end = state.transcript.length;
  const selection = { type: "message_range" as const, start, end };
  const why = { reason: { kind: IMPORT, note: `the conversation is a different one at ${input.source} now` } };
  const making = { why, parent: "", seen: end, now: clock.now(), hash, judge: () => [] };
  const wanted = { to: { start, end, messages: [...messages] }, selection, range: { start, end } };
  return planRewrite(state, wanted, making).body;
}

function compactionId({ sessionId }: Pick<WholeState, "sessionId">, { at, summary }: Mark): string {
  return asUuid(
    createHash("sha256")
      .update(JSON.stringify([sessionId, at, summary]))
      .digest("hex"),
  );
}

interface Made {
  readonly mark: Mark;
  readonly source: string;
}

/** The compaction of another program as one of the session, with a receipt of what left that program's context. */
async function compactedBy(
  { clock, redact }: ImportParts,
  state: WholeState,
  { mark, source }: Made,
): Promise<EntryBodyOf<"compacted">> {
  const { transcript, shown } = state;
  const system = transcript.length - saidIn(transcript).length;
  const said = saidIn(transcript);
  const kept = keptOf(said, mark.keeps);
  const stays = new Set(kept.map(({ seq }) => seq));
  const inContext = new Set(shown.map(({ seq }) => seq));
  const gone = said.filter(({ seq }) => inContext.has(seq) && !stays.has(seq));
  const created_at = mark.created_at ?? said.at(-1)?.message.created_at ?? new Date(clock.now()).toISOString();
  const summary = redact(mark.summary);
  const message: Message = { role: "user", content: summary, created_at, origin: "import" };
  const superseded = activeCompaction(state)?.body.compaction_id;
  const tail = messagesOf(kept);
  const { inheritedFrom, recoverByExpanding, writeReceipt } = await import("../compaction/receipt.ts");
  const receipt = await writeReceipt({
    ...{ gone, inherited: inheritedFrom(state, superseded), saved: [], summary, tail, pinned: [], pruned: [] },
    ...{ invented: [], inventedCut: false, unverified: [] },
    yieldToEventLoop: clock.yieldToEventLoop,
    recover: recoverByExpanding(transcript, clock.yieldToEventLoop),
  });
  const body: EntryBodyOf<"compacted"> = {
    kind: "compacted",
    compaction_id: compactionId(state, mark),
    created_at,
    strategy: "summary",
    trigger: mark.trigger,
    summary_by: "model",
    model: mark.model ?? "unknown",
    notes: [`${source} made this compaction and its summary, which was not checked`],
    summary,
    summary_tokens: estimateTokens([message]),
    messages_before: shown.length,
    messages_after: system + 1 + kept.length,
    tokens_before: estimateTokens(messagesOf(shown)),
    tokens_after: estimateTokens([...messagesOf(transcript.slice(0, system)), message, ...tail]),
    // As a message and not as the summary: it is imported, and so untrusted.
    shows: [{ message }, ...rangesOf(kept, transcript)],
    discarded: rangesOf(gone, transcript),
    ...(superseded === undefined ? {} : { superseded }),
    pruned: [],
    reshape: "as_is",
    receipt,
    usage: { input_tokens: 0, output_tokens: 0 },
    cadence: state.cadence,
  };
  return { ...body, cadence: advanceCadence(state.cadence, body) };
}

/** The last messages, without results whose call is not among them. */
function keptOf(said: readonly Placed[], keeps: number): readonly Placed[] {
  const kept = keeps === 0 ? [] : said.slice(-keeps);
  const from = kept.findIndex(({ message }) => message.role !== "tool_results");
  return from < 0 ? [] : kept.slice(from);
}
