import type { MemoryHit } from "@rkat/core/contract/memory";
import { createInMemoryStore, createRuntime, type Runtime } from "@rkat/core/create-runtime";
import type { Embedder } from "@rkat/core/ports/memory";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { FACTS, FILLER, PREFERENCES } from "./recall-sample.ts";
import type { Report } from "./report.ts";

// What asking does to memory: facts are said and compacted away, every question is asked of a model that searches and
// answers with the right hit if there is one, the asking is compacted away as well, and every question is asked again. An
// echo is a hit that only asks what is asked now, or quotes what memory answered; one that stands above the answer hides it.

const CUT = 5;
/** Requests without a question mark are taken for statements, and stand where their exact words are looked for. */
const ECHO_SHARE_MAX = 0.05;
/** In points: other questions of the same kind are memory, too. */
const RECALL_LOST_MAX = 6;

interface Asked {
  readonly recall: number;
  readonly hits: number;
  readonly echoes: number;
  /** Those that stand above the answer. */
  readonly above: number;
}

export async function measureEchoes(embedder: Embedder): Promise<Report> {
  const runtime = await talked(embedder);
  const before = await askAll(runtime);
  await askInTurns(runtime);
  const after = await askAll(runtime);
  await runtime.close();
  const row = (when: string, { recall, hits, echoes, above }: Asked): readonly string[] => [
    when,
    String(QUESTIONS.length),
    (100 * recall).toFixed(1),
    String(hits),
    String(echoes),
    String(above),
  ];
  return {
    name: "recall-echo",
    tables: [
      [
        ["asked", "questions", `R@${CUT}`, "hits", "echoes", "above the answer"],
        row("for the first time", before),
        row("again", after),
      ],
    ],
    targets: [
      { what: "share of echoes among the hits", value: after.echoes / Math.max(1, after.hits), max: ECHO_SHARE_MAX },
      { what: `points of R@${CUT} lost by asking`, value: 100 * (before.recall - after.recall), max: RECALL_LOST_MAX },
    ],
    measured: { before, after },
  };
}

const QUESTIONS = [...FACTS, ...PREFERENCES].map(([said, asked]) => ({ said, asked }));

async function talked(embedder: Embedder): Promise<Runtime> {
  const model = createScriptedModel(({ messages, tools }) => {
    const last = messages.at(-1);
    if (tools.length === 0) return { text: "They talked." };
    const asked = messages.findLast((message) => message.role === "user")?.content;
    const question = QUESTIONS.find((row) => row.asked === asked);
    if (question === undefined) return { text: "I see." };
    if (last?.role === "user") return { calls: [{ name: "memory_search", args: { query: question.asked } }] };
    const isFound = JSON.stringify(last).includes(question.said);
    return { text: isFound ? `You said: ${question.said}` : "I do not find that." };
  });
  const options = { recentTurnBudget: 1, autoCompactThreshold: 10_000_000 };
  const memory = { embedder: { ...embedder, close: async () => {} } };
  const runtime = createRuntime({ model, env: {}, store: createInMemoryStore(), compaction: options, memory });
  const said = [...FILLER.flat(), ...QUESTIONS.map((row) => row.said)];
  const session = await runtime.createSession("Hello.");
  for (const text of said) await session.turn(text);
  await session.turn("That is all for now.");
  await session.compact();
  return runtime;
}

async function askAll(runtime: Runtime): Promise<Asked> {
  const rows: Asked[] = [];
  await settled(runtime);
  for (const { said, asked } of QUESTIONS) {
    const { results } = await runtime.dispatch("searchMemory", { query: asked, limit: CUT });
    const isEcho = ({ content, kind }: MemoryHit): boolean => kind.startsWith("tool_") || content === asked;
    const answerAt = results.findIndex((hit) => !isEcho(hit) && hit.content.includes(said));
    const above = answerAt < 0 ? results : results.slice(0, answerAt);
    rows.push({
      recall: answerAt < 0 ? 0 : 1 / QUESTIONS.length,
      hits: results.length,
      echoes: results.filter(isEcho).length,
      above: above.filter(isEcho).length,
    });
  }
  const sum = (of: (row: Asked) => number): number => rows.reduce((total, row) => total + of(row), 0);
  return {
    recall: sum(({ recall }) => recall),
    hits: sum(({ hits }) => hits),
    echoes: sum(({ echoes }) => echoes),
    above: sum(({ above }) => above),
  };
}

/** Each search gives the vectors some seconds; these wait for all of them. */
const SEARCHES_MAX = 200;

async function settled(runtime: Runtime): Promise<void> {
  for (let search = 0; search < SEARCHES_MAX; search += 1) {
    await runtime.dispatch("searchMemory", { query: "hello" });
    const { pending } = await runtime.dispatch("readMemoryStatus", {});
    if (pending === 0) return;
  }
  throw new Error("the vectors were not made in time");
}

async function askInTurns(runtime: Runtime): Promise<void> {
  const [row] = await runtime.listSessions();
  const session = runtime.session(row?.sessionId ?? "");
  for (const { asked } of QUESTIONS) await session.turn(asked);
  await session.turn("Thank you.");
  await session.compact();
}
