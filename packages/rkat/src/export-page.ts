import { describeEvent } from "@rkat/core/contract/describe-event";
import type { AgentEvent } from "@rkat/core/contract/event";
import type { OperationOutput } from "@rkat/core/contract/operations";
import type { SessionHistory } from "@rkat/core/contract/session-info";
import type { EventCursor, EventPage } from "@rkat/core/contract/session-operations";
import type { KeptContext, KeptPlaces, SessionPage } from "@rkat/core/contract/wire/session-page";
import type { Runtime } from "@rkat/core/create-runtime";

type SeqMessage = SessionHistory["messages"][number];
type Part = SessionPage["parts"][number];

/** Contexts are included for the newest model calls only. */
export const CONTEXTS_MAX = 50;
/** Bytes of outputs that were too long for the context; each is included whole or not at all. */
const BLOBS_CHARS_MAX = 8 * 1024 * 1024;

interface Keeping {
  readonly dispatch: Runtime["dispatch"];
  readonly session_id: string;
  readonly version: string;
  readonly keptAt: Date;
  readonly signal: AbortSignal;
}

/** Reads a session with everything that the console's screens request. */
export async function exportPage(keeping: Keeping): Promise<SessionPage> {
  const { dispatch, session_id, version, keptAt, signal } = keeping;
  const call = { signal };
  const capabilities = await dispatch("readCapabilities", {}, call);
  const session = await dispatch("readSession", { session_id }, call);
  const { messages } = await dispatch("readHistory", { session_id }, call);
  const calls = await dispatch("listModelCalls", { session_id }, call);
  const said = createTable<SeqMessage>();
  const parts = createTable<Part>();
  const history = said.placesOf(messages);
  return {
    kept_at: keptAt.toISOString(),
    version,
    capabilities,
    // Matches those messages, even if the session has grown since.
    session: { ...session, message_count: messages.length },
    history,
    events: await readEvents(keeping),
    calls,
    ...(await readCompactions(keeping, capabilities)),
    contexts: await readContexts(keeping, calls.calls, { said, parts }),
    blobs: await readBlobs(keeping, messages),
    messages: said.rows,
    parts: parts.rows,
  };
}

interface Table<T> {
  readonly rows: T[];
  placesOf(rows: readonly T[]): KeptPlaces;
}

/** Contexts share most of their parts, so each part is stored once. */
function createTable<T>(): Table<T> {
  const known = new Map<string, number>();
  const rows: T[] = [];
  const placeOf = (row: T): number => {
    const text = JSON.stringify(row);
    const place = known.get(text) ?? rows.push(row) - 1;
    known.set(text, place);
    return place;
  };
  return { rows, placesOf: (given) => joined(given.map(placeOf)) };
}

function joined(places: readonly number[]): KeptPlaces {
  const runs: [number, number][] = [];
  for (const place of places) {
    const last = runs.at(-1);
    if (last?.[1] === place) last[1] = place + 1;
    else runs.push([place, place + 1]);
  }
  return runs;
}

async function readEvents({ dispatch, session_id, signal }: Keeping): Promise<EventPage["events"]> {
  const scope = { type: "session", session_id };
  const found: EventPage["events"] = [];
  let cursor: EventCursor | undefined;
  for (;;) {
    const input = { scope, ...(cursor === undefined ? {} : { cursor }) };
    const { events, has_more } = await dispatch("listEvents", input, { signal });
    found.push(...events.filter(({ payload }) => isShown(payload)));
    cursor = events.at(-1)?.cursor;
    if (!has_more || cursor === undefined) return found;
  }
}

/** Whether an event is about the turn itself; the others repeat the messages. */
function isShown(event: AgentEvent): boolean {
  const { level } = describeEvent(event);
  return level === "remark" || level === "notice";
}

async function readCompactions(
  { dispatch, session_id, signal }: Keeping,
  { capabilities }: SessionPage["capabilities"],
): Promise<Pick<SessionPage, "compactions" | "sources" | "pins">> {
  const isThere = capabilities.some(({ id, status }) => id === "session_compaction" && status === "Available");
  if (!isThere) return { compactions: [], sources: [], pins: [] };
  const { compactions } = await dispatch("listCompactions", { session_id }, { signal });
  const sources: SessionPage["sources"][number][] = [];
  for (const { compaction_id } of compactions) {
    const read = await dispatch("readSummarySources", { session_id, compaction_id }, { signal });
    sources.push({ compaction_id, ...read });
  }
  const { pins } = await dispatch("listPins", { session_id }, { signal });
  return { compactions, sources, pins };
}

async function readContexts(
  { dispatch, session_id, signal }: Keeping,
  calls: SessionPage["calls"]["calls"],
  tables: { readonly said: Table<SeqMessage>; readonly parts: Table<Part> },
): Promise<readonly KeptContext[]> {
  const places = [{}, ...calls.slice(-CONTEXTS_MAX).map(({ seq }) => ({ at_seq: seq }))];
  const contexts: KeptContext[] = [];
  for (const place of places) {
    const { messages, parts, ...context } = await dispatch("readContext", { session_id, ...place }, { signal });
    const named = { messages: tables.said.placesOf(messages), parts: tables.parts.placesOf(parts) };
    contexts.push({ ...place, context, ...named });
  }
  return contexts;
}

/** References in tool output that was cut, and of images. */
const BLOB = /the full output is blob (sha256:[0-9a-f]{64}) …\]|"blob_id":"(sha256:[0-9a-f]{64})"/g;

/** Newest first, so that the oldest are left out. */
async function readBlobs(
  { dispatch, signal }: Keeping,
  messages: readonly SeqMessage[],
): Promise<readonly OperationOutput<"readBlob">[]> {
  const ids = messages.flatMap((message) => {
    return [...JSON.stringify(message).matchAll(BLOB)].map(([, cut, image]) => cut ?? image ?? "");
  });
  const blobs: OperationOutput<"readBlob">[] = [];
  let room = BLOBS_CHARS_MAX;
  for (const blob_id of new Set(ids.toReversed())) {
    // Text may contain the marker of a cut without having been cut.
    const blob = await dispatch("readBlob", { blob_id }, { signal }).catch((thrown: unknown) => {
      if (signal.aborted) throw thrown;
      return undefined;
    });
    if (blob === undefined || blob.data.length > room) continue;
    room -= blob.data.length;
    blobs.push(blob);
  }
  return blobs;
}
