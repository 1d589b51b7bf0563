import type { OperationOutput } from "../contract/operations.ts";
import type { Dispatch } from "../runtime/dispatch.ts";
import { agentPages, logPages } from "./session-lines.ts";

/** A place where a text occurs. */
export interface Mention {
  /** The session or the agent. */
  readonly session_id?: string;
  readonly agent?: string;
  readonly seq: number;
  readonly time: string;
  /** The role of the message, or the kind of the entry. */
  readonly role: string;
  readonly text: string;
  /** The blob with the text, if it is too long for a message. */
  readonly blob_id?: string;
}

interface Looking {
  readonly dispatch: Dispatch;
  readonly signal: AbortSignal;
  /** Ignores case and forms of accents. */
  readonly subject: string;
}

type Page = OperationOutput<"exportAgent">;

/** All entries of a session's log that contain a text, also rewritten, compacted or referenced content. */
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
  const blob = await dispatch("readBlob", { blob_id }, { signal }).catch((thrown: unknown) => {
    if (signal.aborted) throw thrown;
    return undefined;
  });
  if (blob === undefined || !TEXTUAL.test(blob.media_type)) return undefined;
  return Buffer.from(blob.data, "base64").toString("utf8");
}

/** All entries of an agent's log that contain a text. */
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

/** Every text in a value with its message's role, for entries of any kind. */
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
