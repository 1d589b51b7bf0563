import { type Caller, requireScope } from "../contract/caller.ts";
import type { Entry, EntryBody } from "../contract/entry.ts";
import { invalid, RuntimeError } from "../contract/error.ts";
import { type OperationInput, type OperationName, operationOf } from "../contract/operations.ts";
import type { Store } from "../ports/store.ts";
import { blobsIn } from "../sessions/media.ts";
import { walkRows } from "../sessions/walk-rows.ts";
import { entryPages } from "../transfer/portable-log.ts";

type Labels = Caller["labels"];

/** What a caller can see: everything, or the sessions with all of its labels. */
export interface CallerView {
  /** Restricts an input to the caller's sessions; throws "not found" for any other session it names. */
  narrow<N extends OperationName>(name: N, input: OperationInput<N>, caller: Caller): Promise<OperationInput<N>>;
  /** Throws unless the caller may listen to the session. */
  requireListening(caller: Caller, sessionId: string): Promise<void>;
}

export function createCallerView(store: Store): CallerView {
  const requireSession = async (sessionId: string, labels: Labels): Promise<void> => {
    const row = await store.sessions.get(sessionId);
    // The same error as for a missing session, so that the caller cannot distinguish them.
    if (row === undefined || !hasAll(row.labels, labels)) {
      throw new RuntimeError("SESSION_NOT_FOUND", `Session not found: ${sessionId}`);
    }
  };
  return {
    narrow: async (name, input, { labels }) => {
      if (Object.keys(labels).length === 0) return input;
      if (operationOf(name).sees === "project") throw ofAll(name);
      const sessionId = sessionIn(input);
      if (sessionId !== undefined) await requireSession(sessionId, labels);
      if ("agent" in input && input.agent !== undefined) throw ofAll("agent");
      for (const blobId of blobsNamed(input)) await requireMention(store, blobId, labels);
      return withLabels(name, input, labels);
    },
    requireListening: async (caller, sessionId) => {
      requireScope(caller, "read", "listening to a session");
      if (Object.keys(caller.labels).length > 0) await requireSession(sessionId, caller.labels);
    },
  };
}

/** Whether a session is visible with these labels. */
function hasAll(had: Labels, wanted: Labels): boolean {
  return Object.entries(wanted).every(([key, value]) => Object.hasOwn(had, key) && had[key] === value);
}

/** The sessions visible with these labels; undefined for all. */
export async function sessionsWith(store: Store, labels: Labels = {}): Promise<ReadonlySet<string> | undefined> {
  if (Object.keys(labels).length === 0) return undefined;
  const found = new Set<string>();
  for await (const { session_id } of walkRows(store.sessions, { labels })) found.add(session_id);
  return found;
}

function sessionIn(input: object): string | undefined {
  if ("session_id" in input && typeof input.session_id === "string") return input.session_id;
  const { scope } = input as { scope?: unknown }; // Checked below.
  return typeof scope === "object" && scope !== null ? sessionIn(scope) : undefined;
}

/** A caller creates and lists sessions with its labels; a turn may repeat the session's labels. */
function withLabels<I extends object>(name: OperationName, input: I, own: Labels): I {
  const { labels: asked } = input as { labels?: Labels }; // Undefined if the input has none.
  const isMade = name === "createSession";
  // Totals count only sessions with both sets of labels.
  if (name === "readUsage" || (!isMade && name !== "listSessions" && asked === undefined)) return input;
  const other = Object.entries(own).find(([key, value]) => asked !== undefined && (asked[key] ?? value) !== value);
  const labels = { ...asked, ...own };
  if (other === undefined) return { ...input, labels };
  // No session of the caller has another value, so the list is empty.
  if (name === "listSessions") return { ...input, labels, limit: 0 };
  const [key, value] = other;
  throw new RuntimeError("PERMISSION_DENIED", `labels.${key}: sessions of this token have ${key}=${value}`);
}

/** Throws "not found" unless a session with these labels refers to the blob: a blob has no owner. */
async function requireMention(store: Store, blobId: string, labels: Labels): Promise<void> {
  if ((await store.blobs.get(blobId)) !== undefined) {
    for await (const { session_id } of walkRows(store.sessions, { labels })) {
      if (await mentions(store, session_id, blobId)) return;
    }
  }
  throw invalid(`blob_id: there is no blob ${blobId}`);
}

async function mentions({ log }: Store, sessionId: string, blobId: string): Promise<boolean> {
  const isNamed = ({ body }: Entry) =>
    (holdsResults(body) && JSON.stringify(body).includes(blobId)) || blobsSaid(body).includes(blobId);
  for await (const entries of entryPages(log, sessionId)) if (entries.some(isNamed)) return true;
  return false;
}

/** Every blob that an input names, to read it or to show it to a model. */
function blobsNamed(input: unknown): readonly string[] {
  if (typeof input !== "object" || input === null) return [];
  const own = "blob_id" in input && typeof input.blob_id === "string" ? [input.blob_id] : [];
  return [...own, ...Object.values(input).flatMap(blobsNamed)];
}

/** Blobs in user messages: each was checked here when it was sent. */
function blobsSaid(body: EntryBody): readonly string[] {
  if (body.kind === "session_created") return body.pending_prompt === undefined ? [] : blobsIn(body.pending_prompt);
  return "message" in body && body.message.role === "user" ? blobsIn(body.message.content) : [];
}

/** Text of a user or a model proves nothing: it may mention any id. */
function holdsResults(body: EntryBody): boolean {
  return body.kind === "tool_results" || (body.kind === "imported" && body.message.role === "tool_results");
}

/** Agent memories and totals of memory belong to the project, not to a caller. */
function ofAll(what: string): RuntimeError {
  const message = `${what}: it is of all sessions of the project, and this token has labels; use a token without`;
  return new RuntimeError("PERMISSION_DENIED", message);
}
