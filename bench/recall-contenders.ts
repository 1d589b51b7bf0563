import { MemorySearch } from "@rkat/core/contract/memory";
import { toRow, toWire } from "@rkat/core/memory/memory-operations";
import type { Chunk, Embedder, MemoryStore } from "@rkat/core/ports/memory";
import { passageFor, splitText, toChunk, tokensIn } from "@rkat/core/recall/chunk";
import { bestByTerms } from "@rkat/core/recall/rank";
import { createRecall, type Hit, type Recall, turnsAround } from "@rkat/core/recall/recall";
import { createMemoryStoreInMemory } from "@rkat/core/stores/recall-in-memory";
import { queryTerms } from "@rkat/core/text/terms";
import { withoutEach } from "./recall-ablation.ts";
import type { Step } from "./recall-data.ts";

/** What one way of finding answers. */
export interface Answer {
  /** Keys of what was found, best first. */
  readonly keys: readonly string[];
  /** Keys of all that a model reads in each budget of tokens, as the tool's rows are sent to it. */
  readonly read: readonly ReadonlySet<string>[];
  /** Keys of what `memory_search` answers that is given a question and nothing else; of other ways, of as many hits. */
  readonly tool: { readonly hits: readonly string[]; readonly all: readonly string[] };
}

/** A memory that several ways of finding share. */
export interface Arena {
  learn(session: NonNullable<Step["session"]>): Promise<void>;
  /** By the name of the way. */
  ask(query: string): Promise<ReadonlyMap<string, Answer>>;
}

/** Tokens that a model is given of an answer. */
export const BUDGETS = [500, 1_000, 2_000, 4_000];

const FOUND_MAX = 50;
/** What the tool takes that is not told: how many hits, and how many tokens. */
const { limit: HITS, token_budget: TOOL_TOKENS } = MemorySearch.parse({ query: "anything" });
const SCOPE = { discardedOnly: false };
const { signal } = new AbortController();

/** What finds. */
export interface Finders {
  readonly model: Embedder;
  /** Whether each part of the ranking is also left out, one at a time. */
  readonly ablates: boolean;
}

export function createArena({ model, ablates }: Finders): Arena {
  const store = createMemoryStoreInMemory();
  const keys = new Map<number, string>();
  const hashed = createHashedWords();
  const now = (): number => Date.UTC(2026, 0, 1);
  const recalls = new Map<string, Recall>([
    ["recall, words only", createRecall({ store, embedder: undefined, now })],
    [FULL, createRecall({ store, embedder: model, now })],
    ...(ablates ? withoutEach({ store, embedder: model, now }) : []),
  ]);
  const options = { scope: SCOPE, limit: FOUND_MAX, signal };
  const seqs = new Map<string, number>();
  let lastId = 0;

  const learn: Arena["learn"] = async ({ id, said }) => {
    const received = seqs.get(id) ?? 0;
    const parts = said.flatMap(({ key, text, atMs, role = "user" }, index) =>
      splitText(text).map((part, at) => ({ key, text: part, atMs, role, seq: received + index + 1, at })),
    );
    const chunks = parts.map(({ text, atMs, role, seq, at }) =>
      toChunk({
        session_id: id,
        turn: seq,
        seq,
        part: at,
        role,
        kind: "text",
        created_at_ms: atMs,
        text,
      }),
    );
    await store.add({ session_id: id, cursor: received + said.length, chunks, discarded: [] });
    seqs.set(id, received + said.length);
    for (const { key } of parts) keys.set(++lastId, key);
    for (const { key, text } of said) hashed.add(key, text);
    await embedMissing(store, model);
  };

  const ask: Arena["ask"] = async (query) => {
    const toKeys = (chunks: readonly Pick<Chunk, "id">[]): readonly string[] => [
      ...new Set(chunks.map(({ id }) => keys.get(id) ?? "")),
    ];
    const readOf = (hits: readonly Shown[], tokensMax: number): ReadonlySet<string> =>
      new Set(toKeys(withinTokens(hits.flatMap(piecesOf), tokensMax)));
    const asTool = (keys: readonly string[]): Answer["tool"] => ({
      hits: keys.slice(0, HITS),
      all: keys.slice(0, HITS),
    });
    const answerOf = (chunks: readonly Chunk[]): Answer => ({
      keys: toKeys(chunks),
      tool: asTool(toKeys(chunks)),
      read: BUDGETS.map((budget) =>
        readOf(
          chunks.map((chunk) => ({ chunk, around: [] })),
          budget,
        ),
      ),
    });
    const withNext = async (found: readonly Chunk[], next: readonly Chunk[]): Promise<Answer> => {
      const rows = found.slice(0, HITS);
      const read = BUDGETS.map(async (tokensMax) => {
        const around = await turnsAround(rows, { store, scope: SCOPE, tokensMax, next });
        return readOf(
          rows.map((chunk) => ({ chunk, around: around.get(chunk.id) ?? [] })),
          tokensMax,
        );
      });
      return { keys: toKeys(found), tool: asTool(toKeys(found)), read: await Promise.all(read) };
    };
    const ranked = await store.match(bestByTerms(queryTerms(query)), SCOPE);
    const [vector = new Float32Array()] = await model.embed([query], "query", signal);
    const nearest = await store.nearest(model.id, vector, { scope: SCOPE, max: FOUND_MAX });
    const nothing = BUDGETS.map(() => new Set<string>());
    const answers = new Map<string, Answer>([
      ["hashed words", { keys: hashed.find(query), tool: asTool(hashed.find(query)), read: nothing }],
      ["BM25", answerOf(await store.read(ranked.best.slice(0, FOUND_MAX).map(({ id }) => id)))],
      ["vectors only", answerOf(await store.read(nearest.map(({ id }) => id)))],
    ]);
    for (const [name, recall] of recalls) {
      const found = (await recall(query, options)).hits.map(({ chunk }) => chunk);
      const { hits } = await recall(query, { ...options, limit: HITS, tokensMax: TOOL_TOKENS });
      const tool = {
        hits: toKeys(hits.map(({ chunk }) => chunk)),
        all: toKeys(hits.flatMap(({ chunk, around }) => [chunk, ...around])),
      };
      answers.set(name, { ...(await withNext(found, found.slice(HITS))), tool });
      if (name !== FULL) continue;
      answers.set("recall, plain top-k", answerOf(found));
      answers.set("recall, neighbours alone", await withNext(found, []));
    }
    return answers;
  };
  return { learn, ask };
}

/** The whole of it, which the others are compared with. */
export const FULL = "recall";

type Shown = Pick<Hit, "chunk" | "around">;

interface Piece {
  readonly id: number;
  readonly tokens: number;
}

/** What a model is sent of a hit and of each text around it. */
function piecesOf({ chunk, around }: Shown, index: number): readonly Piece[] {
  const nearby = around.map(({ session_id, seq, role, kind, created_at_ms, text }) => ({
    ...(session_id === chunk.session_id ? {} : { session_id: SESSION_ID }),
    seq,
    role,
    kind,
    created_at: new Date(created_at_ms).toISOString(),
    content: text,
  }));
  const hit = { chunk: { ...chunk, session_id: SESSION_ID }, score: 0.5, copies: 1, around };
  const { around: rows = [], ...row } = toRow(toWire(hit, undefined, nearby), index);
  const tokens = [row, ...rows].map((sent) => tokensIn(`${JSON.stringify(sent)},`));
  return [chunk, ...around].map(({ id }, at) => ({ id, tokens: tokens[at] ?? 0 }));
}

/** As long as the ids of sessions; those of the sets are shorter. */
const SESSION_ID = "019467d9-7e3a-7000-8000-000000000000";

/** The first that fit. */
function withinTokens(pieces: readonly Piece[], tokensMax: number): readonly Piece[] {
  let left = tokensMax;
  const end = pieces.findIndex(({ tokens }) => {
    left -= tokens;
    return left < 0;
  });
  return end < 0 ? pieces : pieces.slice(0, end);
}

const EMBEDDED_AT_ONCE = 256;

async function embedMissing(store: MemoryStore, embedder: Embedder): Promise<void> {
  for (;;) {
    const chunks = await store.vectors.missing(embedder.id, EMBEDDED_AT_ONCE);
    if (chunks.length === 0) return;
    for (const chunk of chunks) {
      const [before] = await store.read([chunk.before]);
      const [vector = new Float32Array()] = await embedder.embed([passageFor(chunk, before)], "passage", signal);
      await store.vectors.put(embedder.id, [{ id: chunk.id, vector }]);
    }
  }
}

const BUCKETS = 4_096;

/** What a search costs that knows nothing of language: words hashed into buckets, compared by their angle. */
function createHashedWords() {
  const rows: { readonly key: string; readonly vector: ReadonlyMap<number, number> }[] = [];
  return {
    add: (key: string, text: string) => rows.push({ key, vector: hashWords(text) }),
    find: (query: string): readonly string[] => {
      const asked = hashWords(query);
      const alike = ({ vector }: (typeof rows)[number]): number =>
        [...asked].reduce((sum, [bucket, share]) => sum + share * (vector.get(bucket) ?? 0), 0);
      return rows
        .map((row) => ({ key: row.key, value: alike(row) }))
        .sort((a, b) => b.value - a.value)
        .slice(0, FOUND_MAX)
        .map(({ key }) => key);
    },
  };
}

function hashWords(text: string): ReadonlyMap<number, number> {
  const counts = new Map<number, number>();
  for (const word of text.toLowerCase().split(/\s+/).filter(Boolean)) {
    const bucket = Buffer.from(word).reduce((hash, byte) => (hash * 31 + byte) % BUCKETS, 0);
    counts.set(bucket, (counts.get(bucket) ?? 0) + 1);
  }
  const length = Math.hypot(...counts.values()) || 1;
  return new Map([...counts].map(([bucket, count]) => [bucket, count / length]));
}
