import { describe, expect, it } from "vitest";
import type { Embedder, MemoryStore } from "../ports/memory.ts";
import { createMemoryStoreInMemory } from "../stores/recall-in-memory.ts";
import { toChunk } from "./chunk.ts";
import { createRecall } from "./recall.ts";

const NOW = Date.UTC(2026, 10, 15, 12);
const { signal } = new AbortController();

/** What was said, one after the other, and a question for the second of it. */
const TALKS: readonly [language: string, said: readonly string[], asked: string][] = [
  [
    "Chinese",
    ["我的表妹在杭州当老师。", "下周三晚上七点我要去参加公司的年会。", "医生让我每天早上跑步三公里。"],
    "公司年会是什么时候？",
  ],
  [
    "Japanese",
    ["妹は京都で教師をしています。", "来週の水曜日に会社の忘年会があります。", "毎朝三キロ走るように言われました。"],
    "会社の忘年会はいつですか？",
  ],
  [
    "Korean",
    ["여동생은 부산에서 교사로 일해요.", "다음 주 수요일에 회사 송년회가 있어요.", "의사가 매일 아침 달리라고 했어요."],
    "회사의 송년회는 언제예요?",
  ],
  [
    "Russian",
    [
      "Моя сестра работает учительницей.",
      "В среду у нас корпоратив в ресторане на набережной.",
      "Врач велел бегать по утрам.",
    ],
    "В каком ресторане корпоратив?",
  ],
  [
    "Arabic",
    ["تعمل أختي معلمة في الإسكندرية.", "حفلة الشركة يوم الأربعاء في مطعم البحر.", "نصحني الطبيب بالركض كل صباح."],
    "متى حفلة الشركة؟",
  ],
  [
    "German",
    [
      "Meine Schwester ist Lehrerin in Graz.",
      "Die Weihnachtsfeier der Firma ist am Mittwoch.",
      "Ich soll jeden Morgen laufen.",
    ],
    "Wann feiert die Firma Weihnachten?",
  ],
];

async function storeOf(said: readonly string[]): Promise<MemoryStore> {
  const store = createMemoryStoreInMemory();
  const source = { session_id: "s1", part: 0, role: "user", kind: "text", created_at_ms: NOW } as const;
  const chunks = said.map((text, at) => toChunk({ ...source, turn: at + 1, seq: at + 1, text }));
  await store.add({ session_id: "s1", cursor: said.length, chunks, discarded: [] });
  return store;
}

/** A model that reads the scripts sign by sign: to it, what answers is least alike. */
const TURNS = [0.1, 1.5, 0.6];

function createStranger(grasp: number): Embedder {
  let made = 0;
  return {
    id: "stranger",
    dimensions: 2,
    embed: async (texts, kind) =>
      texts.map(() => {
        const turn = kind === "query" ? 0 : (TURNS[made++] ?? 0);
        return Float32Array.of(Math.cos(turn), Math.sin(turn));
      }),
    grasp: async () => grasp,
    close: async () => {},
  };
}

describe.each(TALKS)("a memory in %s", (_, said, asked) => {
  const best = async (store: MemoryStore, embedder?: Embedder): Promise<string | undefined> => {
    const recall = createRecall({ store, embedder, now: () => NOW });
    const { hits } = await recall(asked, { scope: { discardedOnly: false }, limit: 3, signal });
    return hits[0]?.chunk.text;
  };

  it("[D5] is found by its words", async () => {
    expect(await best(await storeOf(said))).toBe(said[1]);
  });

  it("[D5] is found by its words where the embedder cannot read it", async () => {
    const store = await storeOf(said);
    const embedder = createStranger(0);
    const chunks = await store.vectors.missing(embedder.id, 9);
    const vectors = await embedder.embed(said, "passage", signal);
    await store.vectors.put(
      embedder.id,
      chunks.map(({ id }, at) => ({ id, vector: vectors[at] ?? new Float32Array(2) })),
    );
    expect(await best(store, embedder)).toBe(said[1]);
  });
});
