import { EventEmitter } from "node:events";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { NO_INPUT } from "../../../../test/support/command-line.ts";
import { createDrawnTerminal } from "../../../../test/support/drawn-terminal.ts";
import { fc } from "../../../../test/support/property.ts";
import type { Io, Terminal } from "../io.ts";
import { CLEAR_LINE } from "../progress.ts";
import { fitted, openScreen } from "./screen.ts";
import { cellsOf } from "./wrapped-text.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Longer than a frame takes. */
const FRAME_MS = 30;

function open(columns: number, rows = 24) {
  const drawn = createDrawnTerminal({ columns, rows });
  const output = Object.assign(new EventEmitter(), { columns, rows, isTTY: true, write: drawn.write });
  // A screen needs no more of a terminal than this.
  const terminal = { output } as unknown as Terminal;
  const stream = { isTerminal: true, columns, write: () => {} };
  const io: Io = {
    args: [],
    env: {},
    cwd: "/",
    home: "/",
    version: "",
    nodeVersion: "",
    stdin: { ...NO_INPUT, kind: "terminal", terminal: () => terminal },
    stdout: stream,
    stderr: stream,
    interrupt: new AbortController().signal,
  };
  const screen = openScreen(io);
  const settle = (): void => void vi.advanceTimersByTime(FRAME_MS);
  return { screen, drawn, settle, io: screen.io };
}

describe("[G5] a screen whose lowest rows are drawn", () => {
  it("[G5] has what was written above what is drawn, and leaves only that", () => {
    const { screen, drawn, settle, io } = open(20);
    screen.show("input", ["> typed"], { row: 0, column: 7 });
    screen.show("status", ["how things stand"]);
    io.stdout.write("An answer\nthat");
    settle();
    expect(drawn.lines()).toEqual(["An answer", "that", "> typed", "how things stand"]);
    expect(drawn.cursor()).toEqual({ row: 2, column: 7 });
    io.stdout.write(" goes on\n");
    screen.show("input", ["> "], { row: 0, column: 2 });
    settle();
    expect(drawn.lines()).toEqual(["An answer", "that goes on", "> ", "how things stand"]);
    io.stderr.write("half");
    screen.close();
    expect(drawn.lines()).toEqual(["An answer", "that goes on", "half", ""]);
  });

  it("[G5] wraps sentences at words, and leaves answers and what is set in as they are", () => {
    const { screen, drawn, io } = open(20);
    io.stderr.write("one two three four five\n");
    io.stderr.write("  one two three four five\n");
    io.stdout.write("one two three four five\n");
    screen.close();
    expect(drawn.lines()).toEqual([
      "one two three four",
      "five",
      "  one two three four five",
      "one two three four five",
      "",
    ]);
  });

  it("[G5] keeps the end of a line that is cleared, and cuts rows that are too wide or too many", () => {
    const { screen, drawn, settle, io } = open(10, 4);
    io.stderr.write(`checking…${CLEAR_LINE}checked`);
    screen.show("input", ["first", "second", "a row that is too wide"], { row: 2, column: 1 });
    settle();
    expect(drawn.lines()).toEqual(["first", "second", "a row tha…"]);
    expect(drawn.cursor()).toEqual({ row: 2, column: 1 });
    io.stderr.write("\n");
    screen.show("input", []);
    settle();
    expect(drawn.lines()).toEqual(["checked", ""]);
  });

  it("[G5] shows every line once and in order, whatever is written in whatever pieces, with the rows below", () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 30 }), fc.array(step, { maxLength: 40 }), (columns, steps) => {
        const { screen, drawn, settle, io } = open(columns, 60);
        const lines: string[] = [];
        const rest = { stdout: "", stderr: "" };
        const shown = new Map<string, readonly string[]>();
        for (const { place, text, isFrame } of steps) {
          if (place === "stdout" || place === "stderr") {
            io[place].write(text);
            const [first = "", ...more] = text.split("\n");
            const pieces = [rest[place] + first, ...more];
            rest[place] = pieces.pop() ?? "";
            lines.push(...pieces);
          } else {
            const rows = text.split("\n").map((row) => fitted(row, columns));
            screen.show(place, rows);
            shown.set(place, rows);
          }
          if (isFrame) settle();
        }
        screen.hide()();
        const now = drawn.lines();
        const rows = ["activity", "input", "status"].flatMap((place) => shown.get(place) ?? []);
        const halves = [rest.stdout, rest.stderr].filter((half) => half !== "");
        const written = now.slice(0, lines.length);
        expect(written).toEqual(lines);
        const below = now.slice(lines.length);
        // A half line is as much of its end as there is room for.
        expect(below).toHaveLength(Math.max(1, halves.length + rows.length));
        for (const [at, half] of halves.entries()) {
          expect(half.endsWith(below[at] ?? "?")).toBe(true);
          if (cellsOf(half) <= columns) expect(below[at]).toBe(half);
        }
        if (rows.length > 0) expect(below.slice(halves.length)).toEqual(rows);
        expect(drawn.cutRows()).toBe(0);
        screen.close();
        expect(drawn.lines()).toEqual([...lines, ...halves, ""]);
      }),
    );
  });
});

// Without spaces: sentences are wrapped at them.
const sign = fc.constantFrom("a", "b", "-", "é", "漢", "😀", "\n");
const step = fc.record({
  place: fc.constantFrom("stdout", "stderr", "stdout", "stderr", "activity", "input", "status" as const),
  text: fc.array(sign, { maxLength: 50 }).map((signs) => signs.join("")),
  isFrame: fc.boolean(),
});
