import { AgentName } from "./agent.ts";
import { cliFlag, nonnegative, positive } from "./input.ts";
import { MESSAGES_MAX, RewriteMessage } from "./rewrite.ts";
import { z } from "./schema.ts";
import { SessionId } from "./session.ts";

/** Sessions as they are carried elsewhere: whole logs, a page at a time. */

const ENTRIES_MAX = 1_000;
const BLOBS_MAX = 100;
/** What a store on disk has room for. */
const SEQ_MAX = 2 ** 47;
const TIME_MS_MAX = 2 ** 48 - 1;
const seqWanted = { error: "write a whole number above 0" };
const timeWanted = { error: "write milliseconds of Unix time" };
const seq = z.int(seqWanted).positive(seqWanted).max(SEQ_MAX, seqWanted);

/** A record of a log with its place; what its body may say, the log's own schema decides. */
export const PortableEntry = z.strictObject({
  seq: seq.describe("its first seq"),
  span: z.int(seqWanted).positive(seqWanted).max(SEQ_MAX, seqWanted).describe("the number of seqs it takes"),
  timestamp_ms: z
    .int(timeWanted)
    .nonnegative(timeWanted)
    .max(TIME_MS_MAX, timeWanted)
    .describe("its time, in milliseconds of Unix time"),
  body: z
    .record(z.string(), z.unknown(), { error: "write the record as an object with a kind" })
    .describe("its content by kind, as stored in the log"),
});
export type PortableEntry = z.infer<typeof PortableEntry>;

const blobWanted = { error: "write a blob's id: sha256: and 64 hexadecimal digits" };
const BlobId = z.string(blobWanted).regex(/^sha256:[0-9a-f]{64}$/, blobWanted);
const hexWanted = { error: "write a SHA-256 in 64 hexadecimal digits" };
const Sha256 = z.string(hexWanted).regex(/^[0-9a-f]{64}$/, hexWanted);

/** What messages keep by reference. */
export const PortableBlob = z.strictObject({
  blob_id: BlobId.describe("the blob's id, which is the hash of its bytes"),
  media_type: z
    .string()
    .max(255, { error: "write a media type such as image/png" })
    .describe("what it holds, such as text/plain"),
  data: z.base64({ error: "write the bytes in Base64" }).describe("the bytes in Base64"),
});
export type PortableBlob = z.infer<typeof PortableBlob>;

const FORMAT = "rkat-session";
const VERSION = 1;

/** The first line of a file that holds a session. */
export const PortableHeader = z.strictObject({
  format: z.literal(FORMAT),
  version: z.literal(VERSION, {
    error: `it is of another version than ${VERSION}; import it with the rkat that wrote it`,
  }),
  session_id: z.uuid({ error: "expected a session id (a UUID)" }),
  last_seq: seq,
});
export type PortableHeader = z.infer<typeof PortableHeader>;

/** The last line of such a file: without it the file is cut off. */
export const PortableEnd = z.strictObject({
  end: z.literal(true),
  entries: z.int().positive(),
  blobs: z.int().nonnegative(),
  /** Of every byte before this line. */
  sha256: Sha256,
});
export type PortableEnd = z.infer<typeof PortableEnd>;

export function portableHeader(session_id: string, last_seq: number): PortableHeader {
  return { format: FORMAT, version: VERSION, session_id, last_seq };
}

const count = z.int().nonnegative();

/** A back-up of a realm, and the time of what it holds. */
export const BackupAt = z.object({ place: z.string(), at_ms: count });
export type BackupAt = z.infer<typeof BackupAt>;

/** What a realm notes of a place that it was backed up to. */
export const BackupNote = BackupAt.extend({
  /** When the back-up began that is being made, or was stopped. */
  begun_ms: z.number().optional(),
});
export type BackupNote = z.infer<typeof BackupNote>;

/** One file of a back-up. */
const BackedFile = z.object({
  /** Its path in the state folder, with slashes. */
  path: z.string(),
  /** The number of the back-up that first took this copy, which lies under that number. */
  serial: count,
  bytes: count,
  sha256: Sha256,
  /** Identifies the state of the source file that was read; empty where the file had just changed. */
  stamp: z.string(),
});
export type BackedFile = z.infer<typeof BackedFile>;

/** The files of a back-up. Only the files that it names count, so it is written last. */
export const BackupManifest = z.object({
  /** Identifies the realm, wherever its folder is. */
  store: z.string(),
  /** Counts the back-ups made to one place. */
  serial: count,
  /** When the reading of the state folder began: everything acknowledged before is in the back-up. */
  at_ms: count,
  /** Other back-ups of the realm, so that they stay known after a restore. */
  known: z.array(BackupAt),
  files: z.array(BackedFile),
});
export type BackupManifest = z.infer<typeof BackupManifest>;

const page = {
  after: cliFlag("--after <seq>", nonnegative.default(0).describe("only what follows this seq")),
  limit: cliFlag(
    "--limit <n>",
    positive
      .max(ENTRIES_MAX, { error: `write at most ${ENTRIES_MAX}` })
      .default(200)
      .describe("the maximum number of entries; fewer if they are large"),
  ),
};
const exported = {
  entries: z.array(PortableEntry).describe("its log from there on, oldest first"),
  last_seq: z.int().describe("the last seq of the log"),
  next_after: z.int().optional().describe("the `after` of the next page; absent on the last"),
};

const ExportSession = z.strictObject({ session_id: SessionId, ...page });
const ExportedPage = z.object({
  session_id: z.string().describe("the session's id"),
  ...exported,
  blob_ids: z.array(z.string()).describe("the blobs named by these entries, to be read one by one"),
});

const ExportAgent = z.strictObject({ agent: AgentName, ...page });
const ExportedAgent = z.object({ agent: z.string().describe("its name"), ...exported });

const ImportSession = z.strictObject({
  source_session_id: z
    .uuid({ error: "expected a session id (a UUID)" })
    .transform((id) => id.toLowerCase())
    .describe("the id that the session had where it was exported"),
  into: z
    .uuid({ error: "expected a session id (a UUID)" })
    .transform((id) => id.toLowerCase())
    .optional()
    .describe("the id that the first call answered; with every call but the first"),
  beside: z
    .boolean()
    .default(false)
    .describe("use another id even if a session with this id could be continued; with the first call"),
  after: nonnegative.default(0).describe("the seq that these entries follow; 0 for the first"),
  last_seq: positive.describe("the last seq of the whole log, by which a complete import is recognised"),
  sha256: Sha256.optional().describe(
    "of every entry as a line of JSON with seq, span, timestamp_ms and body; where it is given, the whole log must have it",
  ),
  entries: cliFlag(
    "FILE",
    z
      .array(PortableEntry, { error: "write a list of entries" })
      .min(1, { error: "write at least one entry" })
      .max(ENTRIES_MAX, { error: `write at most ${ENTRIES_MAX} entries; the rest goes into further calls` })
      .describe("entries as an export has them, in their order"),
  ),
  blobs: z
    .array(PortableBlob, { error: "write a list of blobs" })
    .max(BLOBS_MAX, { error: `write at most ${BLOBS_MAX} blobs; the rest goes into further calls` })
    .default([])
    .describe("what these entries name"),
});

const ImportedPage = z.object({
  session_id: z.string().describe("the session's id here: its own, or another where its own was taken"),
  last_seq: z.int().describe("the last seq that is there now"),
  complete: z.boolean().describe("whether the import is complete"),
});

const SUMMARY_CHARS_MAX = 1_000_000;
const COMPACTIONS_MAX = 1_000;
const shortText = { error: "write a text of 1 to 300 characters" };
const ForeignText = z.string(shortText).min(1, shortText).max(300, shortText);
const ForeignTime = z.iso.datetime({ offset: true, error: "write a time as in 2026-01-31T12:00:00Z" });

/** A compaction that another program made of its own conversation. */
const ForeignCompaction = z.strictObject({
  at: nonnegative.describe("how many messages of the conversation came before it"),
  summary: z
    .string()
    .max(SUMMARY_CHARS_MAX, { error: `write at most ${SUMMARY_CHARS_MAX} characters` })
    .describe("the summary that the other program continued with"),
  keeps: nonnegative.default(0).describe("how many of the last messages before it stayed in its context"),
  created_at: ForeignTime.optional().describe("when it was made; without it, the time of the message before it"),
  model: ForeignText.optional().describe("the model that wrote the summary"),
  trigger: z
    .enum(["threshold", "manual"], { error: "write threshold or manual" })
    .default("threshold")
    .describe("threshold: the context was full; manual: it was asked for"),
});
export type ForeignCompaction = z.input<typeof ForeignCompaction>;

const ImportHistory = z.strictObject({
  source: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]{0,39}$/, { error: "write a name of lower-case letters, digits and -, such as codex" })
    .describe("the program that made the conversation, such as claude-code"),
  source_id: ForeignText.describe("the id of the conversation there; with the source it decides the session's id here"),
  parent_id: ForeignText.optional().describe("of a sub-agent's conversation: the id there of the one that started it"),
  labels: z
    .record(z.string(), z.string())
    .default({})
    .describe("labels of a new session, besides imported_from and imported_id"),
  model: ForeignText.optional().describe("the model that continues a new session; without it, the configured one"),
  system_prompt: z.string().optional().describe("the system prompt of a new session"),
  after: nonnegative.default(0).describe("how many messages of the conversation come before these"),
  history: z
    .array(RewriteMessage, { error: "write a list of messages" })
    .max(MESSAGES_MAX, { error: `write at most ${MESSAGES_MAX} messages; the rest goes into further calls` })
    .describe("messages of users, of the model and of tools, oldest first"),
  compactions: z
    .array(ForeignCompaction)
    .max(COMPACTIONS_MAX, { error: `write at most ${COMPACTIONS_MAX} compactions` })
    .default([])
    .describe("compactions that the other program made between these messages"),
});

const ImportedHistory = z.object({
  session_id: z.string().describe("the session's id here, the same for every import of the conversation"),
  messages: count.describe("the messages of the conversation that are there now"),
  added: count.describe("of them, those that this call added"),
  replaced: count.describe("messages of an earlier import that are different now; the log keeps the earlier ones"),
  compactions: count.describe("the compactions that this call added"),
  skipped: z.string().optional().describe("why nothing was added, although the conversation has more messages"),
});

/** The rows of the table about what is carried elsewhere. */
export const PORTABLE_OPERATIONS = {
  exportSession: {
    summary: "Read a session's whole log, a page at a time, to be imported elsewhere as the same session.",
    input: ExportSession,
    output: ExportedPage,
    rpc: "session/export",
    method: "export",
    http: "GET /sessions/{session_id}/export",
    mcp: "meerkat_export",
    mcpListed: false,
    cli: "rkat session export ID",
    scope: "read",
    requires: "session-store",
  },
  importSession: {
    summary: "Add a session that was exported, in one call or page by page; under another id where its own is taken.",
    input: ImportSession,
    output: ImportedPage,
    rpc: "session/import",
    http: "POST /sessions/import",
    mcp: "meerkat_import",
    mcpListed: false,
    cli: "rkat session import FILE",
    scope: "admin",
    sees: "project",
    audited: { action: "session_imported", counts: ["last_seq"] },
    effect: "adds",
    requires: "session-store",
  },
  importHistory: {
    summary: "Add a conversation of another program as a session, or what is new of it since it was last imported.",
    input: ImportHistory,
    output: ImportedHistory,
    rpc: "session/import_history",
    http: "POST /sessions/import_history",
    mcp: "meerkat_import_history",
    mcpListed: false,
    cli: "rkat session import FILE",
    scope: "admin",
    sees: "project",
    audited: { action: "history_imported", counts: ["added"] },
    effect: "idempotent",
    requires: "session-store",
  },
  exportAgent: {
    summary: "Read everything an agent was ever given to remember, and its summaries, a page at a time.",
    input: ExportAgent,
    output: ExportedAgent,
    rpc: "agent/export",
    method: "export",
    http: "GET /agents/{agent}/export",
    mcp: "agent_export",
    mcpListed: false,
    cli: "rkat agent export NAME",
    scope: "read",
    sees: "project",
    requires: "session-store",
  },
} as const;
