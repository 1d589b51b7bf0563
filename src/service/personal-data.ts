import type { OperationOutput } from "../contract/operations.ts";
import type { Dispatch } from "./dispatch.ts";
import { agentPages, logPages } from "./session-lines.ts";

/** A place at which a text was said, remembered or kept. */
export interface Mention {
  /** The session it was said in, or the agent that remembers it. */
  readonly session_id?: string;
  readonly agent?: string;
  readonly seq: number;
  readonly time: string;
  /** Who said it; of what no message is, the kind of the entry. */
  readonly role: string;
  readonly text: string;
  /** The blob that holds it, where it is too long for a message. */
  readonly blob_id?: string;
}

interface Looking {
  readonly dispatch: Dispatch;
  readonly signal: AbortSignal;
  /** Capitals, small letters and the ways to write an accent are taken for the same. */
  readonly subject: string;
}

type Page = OperationOutput<"exportAgent">;

/** Everything in a session's log that contains a text: also what was rewritten, compacted away, or kept by reference. */
export async function* mentionsInSession(looking: Looking, session_id: string): AsyncGenerator<Mention> {
  const { dispatch, signal, subject } = looking;
  const known = new Set<string>();
  for await (const page of logPages({ dispatch, session_id, signal })) {
    for (const mention of mentionsIn(page, subject)) yield { session_id, ...mention };
    const place = page.entries[0];
    for (const blob_id of page.blob_ids) {
      if (known.has(blob_id) || place === undefined) continue;
      known.add(blob_id);
      const text = await textOfBlob(looking, blob_id);
      if (text === undefined || !includes(text, subject)) continue;
      const named = page.entries.find(({ body }) => JSON.stringify(body).includes(blob_id)) ?? place;
      yield { session_id, seq: named.seq, time: timeOf(named), role: "blob", text, blob_id };
    }
  }
}

const TEXTUAL = /^(?:text\/|application\/(?:json|xml|yaml))/;

async function textOfBlob({ dispatch, signal }: Looking, blob_id: string): Promise<string | undefined> {
  // One that is kept no longer says nothing.
  const blob = await dispatch("readBlob", { blob_id }, { signal }).catch((thrown: unknown) => {
    if (signal.aborted) throw thrown;
    return undefined;
  });
  if (blob === undefined || !TEXTUAL.test(blob.media_type)) return undefined;
  return Buffer.from(blob.data, "base64").toString("utf8");
}

/** Everything in an agent's log that contains a text. */
export async function* mentionsOfAgent(looking: Looking, agent: string): AsyncGenerator<Mention> {
  for await (const page of agentPages({ ...looking, agent }))
    for (const mention of mentionsIn(page, looking.subject)) yield { agent, ...mention };
}

function* mentionsIn({ entries }: Pick<Page, "entries">, subject: string): Generator<Mention> {
  for (const entry of entries) {
    for (const { role, text } of textsIn(entry.body, String(entry.body.kind))) {
      if (includes(text, subject)) yield { seq: entry.seq, time: timeOf(entry), role, text };
    }
  }
}

function timeOf({ timestamp_ms }: { readonly timestamp_ms: number }): string {
  return new Date(timestamp_ms).toISOString();
}

/** Every text in a value, with the role of the message it stands in: entries of whatever kind are searched alike. */
function* textsIn(value: unknown, role: string): Generator<{ readonly role: string; readonly text: string }> {
  if (typeof value === "string") yield { role, text: value };
  if (typeof value !== "object" || value === null) return;
  const own = "role" in value && typeof value.role === "string" ? value.role : role;
  for (const inner of Object.values(value)) yield* textsIn(inner, own);
}

function includes(text: string, subject: string): boolean {
  return folded(text).includes(folded(subject));
}

function folded(text: string): string {
  return text.normalize("NFKC").toLowerCase();
}
