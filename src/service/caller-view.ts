import { type Caller, requireScope } from "../contract/caller.ts";
import type { Entry, EntryBody } from "../contract/entry.ts";
import { invalid, RuntimeError } from "../contract/error.ts";
import { type OperationInput, type OperationName, operationOf } from "../contract/operations.ts";
import type { Store } from "../ports/store.ts";
import { blobsIn } from "./media.ts";
import { entryPages } from "./portable-log.ts";
import { walkRows } from "./walk-rows.ts";

type Labels = Caller["labels"];

/** What is there for whoever asks: everything, or what belongs to sessions with all of its labels. */
export interface CallerView {
  /** The input as a caller may give it; throws as if what it names were not there, where that is not its own. */
  narrow<N extends OperationName>(name: N, input: OperationInput<N>, caller: Caller): Promise<OperationInput<N>>;
  /** Throws unless it may listen to the session. */
  requireListening(caller: Caller, sessionId: string): Promise<void>;
}

export function createCallerView(store: Store): CallerView {
  const requireSession = async (sessionId: string, labels: Labels): Promise<void> => {
    const row = await store.sessions.get(sessionId);
    // The same for one that is not there: whoever asks cannot tell the two apart.
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

/** Whether a session is there for somebody of these labels. */
function hasAll(had: Labels, wanted: Labels): boolean {
  return Object.entries(wanted).every(([key, value]) => Object.hasOwn(had, key) && had[key] === value);
}

/** The sessions that are there for somebody of these labels; undefined for all of them. */
export async function sessionsWith(store: Store, labels: Labels = {}): Promise<ReadonlySet<string> | undefined> {
  if (Object.keys(labels).length === 0) return undefined;
  const found = new Set<string>();
  for await (const { session_id } of walkRows(store.sessions, { labels })) found.add(session_id);
  return found;
}

function sessionIn(input: object): string | undefined {
  if ("session_id" in input && typeof input.session_id === "string") return input.session_id;
  const { scope } = input as { scope?: unknown }; // Looked at before it is taken for anything.
  return typeof scope === "object" && scope !== null ? sessionIn(scope) : undefined;
}

/** What a caller makes and lists has its labels; a turn may repeat those it was created with. */
function withLabels<I extends object>(name: OperationName, input: I, own: Labels): I {
  const { labels: asked } = input as { labels?: Labels }; // Of an input without them it is undefined.
  const isMade = name === "createSession";
  // Sums are made of what both ask for.
  if (name === "readUsage" || (!isMade && name !== "listSessions" && asked === undefined)) return input;
  const other = Object.entries(own).find(([key, value]) => asked !== undefined && (asked[key] ?? value) !== value);
  const labels = { ...asked, ...own };
  if (other === undefined) return { ...input, labels };
  // Nothing of its own has another value, so there is nothing to list.
  if (name === "listSessions") return { ...input, labels, limit: 0 };
  const [key, value] = other;
  throw new RuntimeError("PERMISSION_DENIED", `labels.${key}: sessions of this token have ${key}=${value}`);
}

/** Throws as if there were no such blob, unless a session of these labels mentions it: a blob does not say whose it is. */
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

/** Every blob that an input names: to read it, or to have it shown to a model. */
function blobsNamed(input: unknown): readonly string[] {
  if (typeof input !== "object" || input === null) return [];
  const own = "blob_id" in input && typeof input.blob_id === "string" ? [input.blob_id] : [];
  return [...own, ...Object.values(input).flatMap(blobsNamed)];
}

/** The blobs that a user's message is made of: none comes to be one without having been asked about here. */
function blobsSaid(body: EntryBody): readonly string[] {
  if (body.kind === "session_created") return body.pending_prompt === undefined ? [] : blobsIn(body.pending_prompt);
  return "message" in body && body.message.role === "user" ? blobsIn(body.message.content) : [];
}

/** What a user or a model wrote proves nothing: whoever has heard of an id could write it. */
function holdsResults(body: EntryBody): boolean {
  return body.kind === "tool_results" || (body.kind === "imported" && body.message.role === "tool_results");
}

/** An agent's memories and what memory holds in all are the project's, whoever asks. */
function ofAll(what: string): RuntimeError {
  const message = `${what}: it is of all sessions of the project, and this token has labels; use a token without`;
  return new RuntimeError("PERMISSION_DENIED", message);
}
