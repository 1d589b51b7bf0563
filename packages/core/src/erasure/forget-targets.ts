import { agentId } from "../agents/agent-log.ts";
import { RuntimeError } from "../contract/error.ts";
import type { Forget } from "../contract/forget.ts";
import { sentencesOf } from "../text/sentences.ts";
import type { Chosen, ForgettingParts, Job } from "./forget-job.ts";
import {
  type AnyEntry,
  copiesIn,
  everyLog,
  type ForgetReading,
  forksOf,
  readLog,
  requireLog,
  type Target,
  textsSaid,
} from "./forget-logs.ts";

/** The limits of the texts that are searched for afterwards. */
const TEXTS_MAX = 400;
const SENTENCE_CHARS_MIN = 24;
const TEXT_CHARS_MIN = 4;

/** The target of an erasure: which logs, and which texts identify the rest. */
export async function chooseTargets(
  reading: ForgetReading,
  { finder }: ForgettingParts,
  input: Forget,
): Promise<Chosen> {
  const { query_exact, agent } = input;
  if (query_exact !== undefined) {
    const finds = finder([query_exact]);
    const foundBlobs = await blobsWith(reading, finds);
    const targets: Target[] = [];
    for await (const { entries, ...log } of everyLog(reading)) {
      for (const { body } of entries) {
        const said = JSON.stringify(body);
        await reading.clock.yieldToEventLoop();
        if (!finds(said) && !foundBlobs.some((id) => said.includes(id))) continue;
        targets.push({ ...log, isAll: false, seqs: [], isCopy: false });
        break;
      }
    }
    return { target: "text", texts: [query_exact], targets, copies: [], foundBlobs, restated: [] };
  }
  if (agent !== undefined) return chooseAgent(reading, agent, input.memory);
  const wanted = input.messages ?? [{ session_id: input.session_id ?? "", seq: input.seq }];
  const bySession = Map.groupBy(wanted, ({ session_id }) => session_id);
  const gone: AnyEntry[] = [];
  const targets: Target[] = [];
  for (const [id, messages] of bySession) {
    const entries = await readLog(reading, { kind: "session", id });
    requireLog(entries, `session ${id}`);
    const seqs = messages.flatMap(({ seq }) => seq ?? []);
    const isAll = seqs.length === 0;
    for (const seq of seqs) requireMessage(entries, id, seq);
    const own = entries.flatMap(messagesIn).filter((entry) => isAll || seqs.some((seq) => holdsSeq(entry, seq)));
    // One by one: there may be more than one call accepts.
    for (const entry of own) gone.push(entry);
    targets.push({ kind: "session", id, isAll, seqs, isCopy: false });
  }
  for (const id of await forksOf(reading, new Set(bySession.keys())))
    targets.push({ kind: "session", id, isAll: false, seqs: [], isCopy: true });
  const target = input.messages !== undefined ? "messages" : input.seq === undefined ? "session" : "message";
  return { target, targets, copies: copiesIn(gone), foundBlobs: [], ...toLookFor(textsSaid(gone)) };
}

const BLOBS_A_PAGE = 100;

/** Blobs with the text. */
async function blobsWith(
  { store: { blobs }, clock }: ForgetReading,
  finds: (bytes: Uint8Array) => boolean,
): Promise<readonly string[]> {
  const found: string[] = [];
  for (
    let page = await blobs.ids("", BLOBS_A_PAGE);
    page.length > 0;
    page = await blobs.ids(page.at(-1) ?? "", BLOBS_A_PAGE)
  ) {
    for (const id of page) {
      const blob = await blobs.get(id);
      if (blob !== undefined && finds(blob.data)) found.push(id);
      await clock.yieldToEventLoop();
    }
  }
  return found;
}

/** Only whole sessions: copies and restatements in other sessions stay. */
export async function chooseSessions(reading: ForgetReading, ids: readonly string[]): Promise<Chosen> {
  const said: string[] = [];
  for (const id of ids) {
    for (const text of textsSaid(await readLog(reading, { kind: "session", id }))) said.push(text);
  }
  const targets = ids.map((id): Target => ({ kind: "session", id, isAll: true, seqs: [], isCopy: false }));
  return { target: "sessions", targets, copies: [], foundBlobs: [], texts: toLookFor(said).texts, restated: [] };
}

async function chooseAgent(reading: ForgetReading, agent: string, memory: number | undefined): Promise<Chosen> {
  const id = agentId(agent);
  const entries = await readLog(reading, { kind: "agent", id });
  requireLog(entries, `agent ${agent}`);
  const isWanted = ({ body }: AnyEntry): boolean =>
    memory === undefined || (body.kind === "memory_added" && body.number === memory);
  const gone = entries.filter(isWanted);
  if (gone.length === 0) throw new RuntimeError("SESSION_NOT_FOUND", `memory: agent ${agent} has no memory ${memory}`);
  const isAll = memory === undefined;
  const seqs = isAll ? [] : gone.map(({ seq }) => seq);
  const targets: Target[] = [{ kind: "agent", id, agent, isAll, seqs, isCopy: false }];
  return { target: isAll ? "agent" : "memory", targets, copies: [], foundBlobs: [], ...toLookFor(textsSaid(gone)) };
}

/** Each message that a rewrite inserted counts by itself, as forks copy it. */
function messagesIn(entry: AnyEntry): readonly AnyEntry[] {
  const { seq, body } = entry;
  if (body.kind !== "rewritten" || !("messages" in body.to)) return [entry];
  return body.to.messages.map((message, at) => ({
    ...entry,
    seq: seq + at,
    span: 1,
    body: { kind: "imported", message },
  }));
}

function holdsSeq({ seq, span }: AnyEntry, wanted: number): boolean {
  return seq <= wanted && wanted < seq + span;
}

function requireMessage(entries: readonly AnyEntry[], id: string, seq: number): void {
  const entry = entries.find((one) => holdsSeq(one, seq));
  if (
    entry !== undefined &&
    (textsSaid([entry]).length > 0 || "message" in entry.body || entry.body.kind === "rewritten")
  )
    return;
  throw new RuntimeError(
    "SESSION_NOT_FOUND",
    `seq: session ${id} has no message at ${seq}; rkat session show lists them`,
  );
}

/** Texts that prove the erasure: short ones whole, and sentences from all over long ones. */
function toLookFor(said: readonly string[]): Pick<Job, "texts" | "restated"> {
  const pieces = said.flatMap((text) => {
    if (text.length <= 2 * SENTENCE_CHARS_MIN) return [text.trim()];
    return sentencesOf(text).filter((sentence) => sentence.length >= SENTENCE_CHARS_MIN);
  });
  // A quotation may omit the end of a sentence.
  const bare = pieces.map((piece) => piece.replace(/[.!?]$/u, ""));
  const all = [...new Set(bare)].filter((piece) => piece.length >= TEXT_CHARS_MIN);
  const step = Math.max(1, all.length / TEXTS_MAX);
  const texts = Array.from({ length: Math.min(all.length, TEXTS_MAX) }, (_, at) => all[Math.floor(at * step)] ?? "");
  return { texts, restated: said };
}
