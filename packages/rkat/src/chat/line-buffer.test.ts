import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { createLineBuffer, type LineBuffer, type Motion } from "./line-buffer.ts";
import { cellsOf } from "./wrapped-text.ts";

const FAMILY = "👨‍👩‍👧‍👦";

function typed(text: string, ...moves: readonly Motion[]): LineBuffer {
  const buffer = createLineBuffer();
  buffer.insert(text);
  for (const move of moves) buffer.move(move);
  return buffer;
}

describe("[G5] a line that is typed", () => {
  it("[G5] takes signs where the cursor is", () => {
    const buffer = typed("heon", "left", "left");
    buffer.insert("r");
    expect([buffer.text(), buffer.before(), buffer.isAtEnd, buffer.isEmpty]).toEqual(["heron", "her", false, false]);
    buffer.set("");
    expect([buffer.text(), buffer.isAtEnd, buffer.isEmpty]).toEqual(["", true, true]);
  });

  it("[G5] joins a mark to the sign before it, and takes a family for one sign", () => {
    const buffer = typed("e");
    buffer.insert("\u0301");
    buffer.erase("left");
    expect(buffer.text()).toBe("");
    for (const part of FAMILY) buffer.insert(part);
    expect(buffer.text()).toBe(FAMILY);
    buffer.move("left");
    expect(buffer.before()).toBe("");
    buffer.erase("right");
    expect(buffer.isEmpty).toBe(true);
  });

  it("[G5] moves by words and to the ends of lines and of the text", () => {
    const text = "one, two\nthree_3 four";
    const after = (...moves: readonly Motion[]) => typed(text, ...moves).before();
    expect(after("word-left")).toBe("one, two\nthree_3 ");
    expect(after("word-left", "word-left", "word-left")).toBe("one, ");
    expect(after("start", "word-right")).toBe("one");
    expect(after("start", "word-right", "word-right")).toBe("one, two");
    expect(after("start", "line-end")).toBe("one, two");
    expect(after("line-start")).toBe("one, two\n");
    expect(after("start", "left")).toBe("");
    expect(after("start", "right", "end")).toBe(text);
    expect(after("start", "line-start")).toBe("");
  });

  it("[G5] puts in again what was erased by more than a sign, and exchanges two signs", () => {
    const buffer = typed("one two");
    buffer.erase("word-left");
    buffer.erase("left");
    expect(buffer.text()).toBe("one");
    buffer.move("start");
    buffer.yank();
    expect([buffer.text(), buffer.before()]).toEqual(["twoone", "two"]);
    buffer.erase("line-end");
    buffer.erase("line-end");
    buffer.yank();
    expect(buffer.text()).toBe("twoone");
    buffer.transpose();
    expect(buffer.text()).toBe("twooen");
    buffer.move("start");
    buffer.transpose();
    expect(buffer.text()).toBe("twooen");
    const single = typed("a");
    single.transpose();
    expect(single.text()).toBe("a");
  });

  it("[G5] replaces what stands before the cursor from a place on", () => {
    const buffer = typed("see @sr now", "word-left", "left");
    buffer.replaceBefore(4, "@src/cli.ts ");
    expect([buffer.text(), buffer.before()]).toEqual(["see @src/cli.ts  now", "see @src/cli.ts "]);
  });

  it("[G5] tells a long paste by a word that is one sign, and sends it whole", () => {
    const lines = Array.from({ length: 30 }, (_, at) => `line ${at}`).join("\r\n");
    const buffer = typed("read: ");
    buffer.paste(lines);
    buffer.insert("!");
    expect(buffer.shown()).toBe("read: [pasted 1: 30 lines]!");
    expect(buffer.text()).toBe(`read: ${lines.replaceAll("\r\n", "\n")}!`);
    buffer.paste("x".repeat(3_000));
    expect(buffer.shown()).toBe("read: [pasted 1: 30 lines]![pasted 2: 1 line]");
    buffer.erase("left");
    buffer.erase("left");
    buffer.erase("left");
    expect(buffer.text()).toBe("read: ");
    buffer.paste("two\rlines\u001b[2J");
    expect(buffer.shown()).toBe("read: two\nlines[2J");
  });

  it("[G5] moves by rows as they are shown, over wrapped and over several lines", () => {
    const buffer = typed("abcdefghij\nxy\nklmno");
    const rows = 6;
    expect(buffer.layOut(rows)).toMatchObject({
      rows: ["abcde", "fghij", "xy", "klmno"],
      cursor: { row: 3, column: 5 },
    });
    expect(buffer.moveRow(1, rows)).toBe(false);
    expect(buffer.moveRow(-1, rows)).toBe(true);
    expect(buffer.before()).toBe("abcdefghij\nxy");
    buffer.moveRow(-1, rows);
    expect(buffer.before()).toBe("abcdefg");
    buffer.moveRow(-1, rows);
    expect(buffer.before()).toBe("ab");
    expect(buffer.moveRow(-1, rows)).toBe(false);
    buffer.moveRow(1, rows);
    expect(buffer.before()).toBe("abcdefg");
  });

  it("[G5] lays out wide signs and tabs in whatever room there is", () => {
    expect(typed("漢字a").layOut(4)).toMatchObject({ rows: ["漢", "字a"], cursor: { row: 1, column: 3 } });
    expect(typed("a\tb").layOut(10)).toMatchObject({ rows: ["a    b"], cursor: { row: 0, column: 6 } });
    expect(typed("漢字").layOut(2).rows).toEqual(["漢", "字"]);
    expect(typed("ab").layOut(0).rows).toEqual(["a", "b"]);
    expect(typed("a\n").layOut(10)).toMatchObject({ rows: ["a", ""], cursor: { row: 1, column: 0 } });
  });

  it("[G5] has its cursor within the text, and rows within the cells, whatever is done to it", () => {
    fc.assert(
      fc.property(fc.array(deed, { maxLength: 40 }), fc.integer({ min: 6, max: 30 }), (deeds, cells) => {
        const buffer = createLineBuffer();
        for (const { kind, text, to } of deeds) {
          if (kind === "insert") buffer.insert(text);
          else if (kind === "paste") buffer.paste(text);
          else if (kind === "move") buffer.move(to);
          else if (kind === "erase") buffer.erase(to);
          else if (kind === "yank") buffer.yank();
          else if (kind === "transpose") buffer.transpose();
          else if (kind === "replace") buffer.replaceBefore(text.length, text);
          else buffer.moveRow(kind === "up" ? -1 : 1, cells);
          const { rows, cursor } = buffer.layOut(cells);
          expect(buffer.shown().startsWith(buffer.before())).toBe(true);
          expect(buffer.isAtEnd).toBe(buffer.before() === buffer.shown());
          expect(rows.join("")).toBe(buffer.shown().replaceAll("\n", "").replaceAll("\t", "    "));
          for (const row of rows) expect(cellsOf(row)).toBeLessThanOrEqual(cells);
          expect(cursor.column).toBeLessThanOrEqual(cellsOf(rows[cursor.row] ?? ""));
        }
      }),
    );
  });
});

const MOTIONS = ["left", "right", "word-left", "word-right", "line-start", "line-end", "start", "end"] as const;
const deed = fc.record({
  kind: fc.constantFrom(
    "insert",
    "insert",
    "insert",
    "paste",
    "move",
    "erase",
    "yank",
    "transpose",
    "replace",
    "up",
    "down",
  ),
  text: fc
    .array(fc.constantFrom("a", "b", " ", "-", "漢", "é", "e\u0301", "\t", "\n", FAMILY, "😀"), { maxLength: 12 })
    .map((signs) => signs.join("")),
  to: fc.constantFrom(...MOTIONS),
});
