import { describe, expect, it } from "vitest";
import { createLocalEmbedder } from "./local.ts";
import { createHashingEmbedder, withGrasp } from "./open-embedder.ts";

describe("how much an embedder grasps", () => {
  const { grasp = async () => Number.NaN } = withGrasp(createLocalEmbedder());

  it.each([
    "Which port does the staging database use?",
    "Welchen Port benutzt die Staging-Datenbank eigentlich?",
    "Quel port utilise la base de données ?",
    "1234 ?",
  ])("[D5] is most of what is written in words it was trained on: %s", async (text) => {
    expect(await grasp(text)).toBeGreaterThan(0.7);
  });

  it.each([
    "测试数据库使用哪个端口？",
    "テスト用データベースはどのポートを使っていますか？",
    "테스트 데이터베이스는 어떤 포트를 사용합니까?",
    "Какой порт использует тестовая база данных?",
    "ما هو المنفذ الذي تستخدمه قاعدة البيانات؟",
    "परीक्षण डेटाबेस किस पोर्ट का उपयोग करता है?",
  ])("[D5] is next to nothing of a script it reads sign by sign: %s", async (text) => {
    expect(await grasp(text)).toBeLessThan(0.1);
  });

  it("[D5] is nothing beyond words for counted words", async () => {
    expect(await withGrasp(createHashingEmbedder()).grasp?.("Which port does the staging database use?")).toBe(0);
  });
});
