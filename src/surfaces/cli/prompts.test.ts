import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { createPaint, type Terminal } from "./io.ts";
import { openLineEditor } from "./prompts.ts";

/** An editor whose keys are pressed by the test, on a narrow terminal. */
function editorOn(columns: number) {
  const input = new PassThrough();
  const output = Object.assign(new PassThrough(), { columns, isTTY: true });
  let shown = "";
  output.on("data", (data) => {
    shown += data;
  });
  // An editor needs no more of a terminal than these.
  const terminal = { input, output } as unknown as Terminal;
  const paint = createPaint({ isTerminal: false, columns, write: () => {} }, {});
  const editor = openLineEditor(terminal, paint, { prompt: () => {}, interrupt: () => {}, end: () => {} });
  const press = async (keys: string): Promise<void> => {
    input.write(keys);
    await sleep(20);
  };
  const since = async (act: () => void): Promise<string> => {
    shown = "";
    act();
    await sleep(20);
    return shown;
  };
  return { editor, press, since, write: () => void output.write("A line.\n") };
}

const CLEAR_BELOW = "\u001b[1G\u001b[0J";

describe("what is written while a line is typed", () => {
  it("stands above it, and the line is shown again", async () => {
    const { editor, press, since, write } = editorOn(40);
    editor.ask();
    await press("half a tho");
    const shown = await since(() => editor.aside(write));
    expect(shown).toBe(`${CLEAR_BELOW}A line.\n${CLEAR_BELOW}> half a tho\u001b[13G`);
  });

  it("stands above all of its rows", async () => {
    const { editor, press, since, write } = editorOn(10);
    editor.ask();
    await press("0123456789abc");
    const shown = await since(() => editor.aside(write));
    const up = "\u001b[1A";
    expect(shown).toBe(`${up}${CLEAR_BELOW}A line.\n\n${up}${CLEAR_BELOW}> 0123456789abc\u001b[6G`);
  });

  it("is only written where no line is shown, and after the end", async () => {
    const { editor, since, write } = editorOn(40);
    expect(await since(() => editor.aside(write))).toMatch(/A line\.\n$/);
    editor.ask();
    editor.close();
    expect(await since(() => editor.aside(write))).toMatch(/A line\.\n$/);
  });
});
