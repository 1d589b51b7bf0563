import { describe, expect, it } from "vitest";
import { isProse } from "./prose.ts";

describe("prose", () => {
  it.each([
    ["English", "The clerk wrote that the sum of the month was right, and that nobody had asked for it again."],
    ["German", "Der Schreiber hielt fest, dass die Summe des Monats stimmt und niemand mehr danach gefragt hat."],
    ["Russian", "Писарь записал, что сумма за месяц верна и что больше никто о ней не спрашивал."],
    ["Arabic", "كتب الكاتب أن مجموع الشهر صحيح وأن أحدا لم يسأل عنه مرة أخرى."],
    ["Chinese", "书记员写道，本月的总额是正确的，此后再也没有人问起过这件事情，大家都放心了。"],
    ["Japanese", "書記は、その月の合計は正しく、もう誰も尋ねてこなかったと書き残していました。"],
    ["with a number", "On the third of May the port of the staging server was moved from 8080 to 9090, as agreed."],
  ])("[D5] is what is said in %s", (_, text) => {
    expect(isProse(text)).toBe(true);
  });

  it.each([
    ["a log", "2026-03-04T10:22:31.120Z INFO ledger.store row=17 amount=119.50 took=3ms trace=ab12\n".repeat(4)],
    ["code", "export function isBusy(): boolean {\n  return turns.size > 0 || now() - endedMs < CALM_MS;\n}\n"],
    ["JSON", '{"account":"savings","row":7,"sum":"12.50","currency":"EUR","tags":["a","b"]}'],
    ["a list of files", "README\nLICENSE\nsrc\ntest\ndocs\nassets\npackage\n"],
    ["a table", "name | size | time\nalpha | 12 | 3\nbeta | 9 | 4\n"],
    ["a stack", "Error: no room\n    at add (/srv/app/store.js:12:7)\n    at run (/srv/app/main.js:40:3)\n"],
    ["nothing", "  \n "],
  ])("[D5] is not %s", (_, text) => {
    expect(isProse(text)).toBe(false);
  });
});
