import { describe, expect, it } from "vitest";
import type { SpecificKind } from "../contract/compaction.ts";
import { classify, indexTexts } from "./occurrence.ts";
import type { Specific } from "./specifics.ts";

const cases: readonly (readonly [text: string, kind: SpecificKind, specific: string, occurs: boolean])[] = [
  ["born in 2012", "number", "12 ms", false],
  ["foobar and foo_bar", "identifier", "foo", false],
  ["call `foo.bar`()", "identifier", "foo.bar", true],
  ["in ./src/a.ts.", "path", "src/a.ts", true],
  ["in lib/src/a.ts", "path", "./src/a.ts", true],
  ["in a.ts", "path", "src/a.ts", false],
  ["C:\\temp\\x.log", "path", "c:/temp/x.log", true],
  ["about 1,200 rows", "number", "1200", true],
  ["about 1.200 Zeilen", "number", "1,200", true],
  ["1 200 lignes", "number", "1200", true],
  ["1.2k rows", "number", "1200", true],
  ["1200 rows", "number", "1.2k", true],
  ["100,000 users", "number", "100k", true],
  ["1.4 million users", "number", "1.4M", true],
  ["约 1800 万行", "number", "18000000", true],
  ["三千五百元", "number", "3500元", true],
  ["1.2万行", "number", "12000", true],
  ["timeout: 30000", "number", "30 s", true],
  ["waits two weeks", "number", "14 days", true],
  ["12 s", "number", "12 ms", false],
  ["15 files", "number", "15 %", false],
  ["coverage: 85", "number", "85 %", true],
  ["on 2026-11-15", "number", "15 November 2026", true],
  ["on 2026-11-15", "number", "16 November 2026", false],
  ["11/15/2026", "number", "15.11.2026", true],
  ["2026年11月15日", "number", "Nov 15", true],
  ["at 2:30 pm", "number", "14:30", true],
  ["v1.2.3", "identifier", "1.2.3", true],
  ["1.2.3", "identifier", "v1.2.3", true],
  ["1, 2, 3", "identifier", "1.2.3", false],
  ["ＡＢＣ－１２３", "identifier", "ABC-123", true],
  ["端口7443已开", "number", "7443", true],
  ["http://a.example/x/", "url", "http://a.example/x", true],
  ["npm   test  --watch", "command", "npm test --watch", true],
  ["it exited with 137", "command", "exit code 137", true],
  ['{"text":"line\\nnext_word"}', "identifier", "next_word", true],
  ["Migrations are never to be touched by anyone", "rule", "Never touch the migrations.", false],
  ["Migrations exist. Nobody touched files.", "rule", "Never touch the migrations of billing", false],
  ["Hm. - NEVER touch the “migrations”", "rule", "Never touch the migrations.", true],
  ["1. Never touch the migrations!", "rule", "Never touch the migrations.", true],
  ["He said “never touch the migrations” to us", "rule", "Never touch the migrations.", true],
  ["Never touch the migrations of billing.", "rule", "Never touch the migrations.", false],
  ["白天不能锁表", "rule", "白天绝对不能锁表。", false],
  ["Delete the backups in /var/backups/heron.", "rule", "Never delete the backups in /var/backups/heron.", false],
  ["Backups in /var/backups/heron: never delete.", "rule", "Never delete the backups in /var/backups/heron.", false],
  ["Deleting the backups in /b/heron is forbidden.", "rule", "Never delete the backups in /b/heron.", false],
  ["Delete the backups of heron, but never push.", "rule", "Never delete the backups of heron.", false],
  ["Push to main.", "rule", "Do not push to main.", false],
  ["No pushes to main.", "rule", "Don’t push to main.", false],
  ["Never push to main.", "rule", "Always push to main.", false],
  ["The user prefers spaces over tabs.", "rule", "I prefer tabs over spaces.", false],
  ["The user prefers tabs over spaces.", "rule", "I prefer tabs over spaces.", false],
  ["The user prefers tabs, not spaces.", "rule", "I prefer tabs over spaces.", false],
  ["Use only spaces instead of tabs.", "rule", "Only use tabs instead of spaces.", false],
  ["Use only spaces rather than tabs.", "rule", "Only use tabs rather than spaces.", false],
  ["At most 2 hours of driving a day.", "rule", "Never more than 2 hours of driving a day.", false],
  ["Die Datenbank auf Produktion löschen.", "rule", "Die Datenbank auf Produktion niemals löschen!", false],
  ["Die Datenbank auf Produktion nicht löschen.", "rule", "Die Datenbank auf Produktion niemals löschen!", false],
  ["Supprime les archives du serveur.", "rule", "Ne supprime jamais les archives du serveur.", false],
  ["Ne pas supprimer les archives du serveur.", "rule", "Ne supprime jamais les archives du serveur.", false],
  ["Borra las copias del servidor.", "ask", "Nunca borra las copias del servidor.", false],
  ["删除生产日志文件", "rule", "不要删除生产日志文件。", false],
  ["别删除生产日志文件", "rule", "不要删除生产日志文件。", false],
  ["元の写真を削除してください", "rule", "元の写真を削除しないでください。", false],
  ["元の写真の削除は禁止", "rule", "元の写真を削除しないでください。", false],
];

/** What differs in one sign or small word, or only in its order. */
const others: readonly (readonly [text: string, kind: SpecificKind, specific: string, occurs: boolean])[] = [
  ["The oven is at 20 °F.", "number", "20 °C", false],
  ["The oven is at 20 ℃.", "number", "20 °C", true],
  ["Rates rise by 5 bps.", "number", "5 pp", false],
  ["Rates rise by 500 bps.", "number", "5 pp", true],
  ["上升了5%。", "number", "5百分点", false],
  ["Padding is 12 rem.", "number", "12 px", false],
  ["The flat has 20平方米.", "number", "20坪", false],
  ["in /var/etc/hosts", "path", "/etc/hosts", false],
  ["in ~/etc/hosts", "path", "/etc/hosts", false],
  ["in `/etc/hosts`", "path", "/etc/hosts", true],
  ["in file:///etc/hosts", "path", "/etc/hosts", true],
  ["in src/foo.ts", "path", "src/Foo.ts", false],
  ["in src/Foo.ts", "path", "src/Foo.ts", true],
  ["call GetUser", "identifier", "getUser", false],
  ["set max_size", "identifier", "MAX_SIZE", false],
  ["ops-123 is open", "identifier", "OPS-123", true],
  ["DEADBEEF01 is the commit", "identifier", "deadbeef01", true],
  ["write to bob@example.com.au", "identifier", "bob@example.com", false],
  ["write to bob@example.com.", "identifier", "bob@example.com", true],
  ["see https://x.example/a", "url", "http://x.example/a", false],
  ["see x.example/a", "url", "http://x.example/a", true],
  ["see https://x.example/a/b", "url", "https://x.example/a", false],
  ["see https://x.example/a?b=1", "url", "https://x.example/a", false],
  ["see https://x.example/a/, please", "url", "https://x.example/a", true],
  ["Should we ship after Monday?", "ask", "Should we ship before Monday?", false],
  ["Open: whether to ship before Monday", "ask", "Should we ship before Monday?", true],
  ["Should we delete the last backup?", "ask", "Should we delete the first backup?", false],
  ["Why did Anna stop the deploy?", "ask", "When did Anna stop the deploy?", false],
  ["Soll der Versand nach Montag beginnen?", "ask", "Soll der Versand vor Montag beginnen?", false],
  ["Faut-il livrer la commande après lundi ?", "ask", "Faut-il livrer la commande avant lundi ?", false],
  ["Не нужно ли удалить базу данных?", "ask", "Нужно ли удалить базу данных?", false],
  ["Não devemos apagar o banco de dados?", "ask", "Devemos apagar o banco de dados?", false],
  ["He asked: can we ship the heron today?", "ask", "Can we ship the heron today?", true],
  ["Moeten we de database niet verwijderen?", "ask", "Moeten we de database verwijderen?", false],
  ["Is Bob older than Alice in the list?", "ask", "Is Alice older than Bob in the list?", false],
  ["Copy from b.txt to a.txt?", "ask", "Copy from a.txt to b.txt?", false],
  ["Should production replace staging there?", "ask", "Should staging replace production there?", false],
];

describe("occurrence", () => {
  it.each(others)("[J5] in %j, a %s %j occurs: %s", async (text, kind, specific, occurs) => {
    const index = indexTexts([text], () => undefined);
    expect(await index.has({ kind, text: specific })).toBe(occurs);
  });

  it.each(cases)("[C15] in %j, a %s %j occurs: %s", async (text, kind, specific, occurs) => {
    const index = indexTexts([text], () => undefined);
    expect(await index.has({ kind, text: specific })).toBe(occurs);
  });

  it("[C15] checks ten thousand specifics against a hundred thousand words at once", async () => {
    const words = Array.from({ length: 100_000 }, (_, at) =>
      at % 5 === 0 ? `src/m${at}/index.ts` : `word${at % 977}`,
    );
    const index = indexTexts([words.join(" ")], () => undefined);
    const specifics = Array.from({ length: 10_000 }, (_, at) => ({
      kind: "path" as const,
      text: `src/m${at}/index.ts`,
    }));
    // If each check read the text, this would take minutes, and no test has them.
    const held = await Promise.all(specifics.map(index.has));
    expect(held.filter(Boolean)).toHaveLength(2_000);
  });
});

const path = (text: string): Specific => ({ kind: "path", text, seq: 1 });

describe("classify", () => {
  it("[C15] names the first place that holds a specific, and asks for recovery only of the rest", async () => {
    const asked: string[] = [];
    const items = await classify([path("a.ts"), path("b.ts"), path("c.ts"), path("d.ts"), path("e.ts")], {
      summary: "a.ts was changed",
      yieldToEventLoop: () => undefined,
      tail: ["a.ts", "and b.ts"],
      pinned: ["b.ts", "keep c.ts"],
      recover: async ({ text }) => asked.push(text) > 0 && text === "d.ts",
    });
    expect(items.map(({ status }) => status)).toEqual(["in_summary", "in_tail", "pinned", "recoverable", "lost"]);
    expect(asked).toEqual(["d.ts", "e.ts"]);
  });
});
