import { createPaint, type Io } from "../io.ts";
import { canDraw } from "../progress.ts";
import type { Keys } from "./keys.ts";
import { type Picker, pickByNumber } from "./picker.ts";

/** Lets a person choose, in a list that is drawn or by number; undefined when nothing was chosen. */
export async function pickOne<T>(given: Io, picker: Picker<T>): Promise<T | undefined> {
  if (!canDraw(given)) return pickByNumber(given, picker);
  const [{ openScreen }, { openKeys }, { createListMode }] = await Promise.all([
    import("./screen.ts"),
    import("./keys.ts"),
    import("./list-mode.ts"),
  ]);
  const screen = openScreen(given);
  const paint = createPaint(given.stderr, given.env);
  let keys: Keys | undefined;
  try {
    return await new Promise<T | undefined>((done) => {
      const redraw = (): void => {
        const { rows, cursor } = mode.rows(screen.columns);
        screen.show("input", rows, cursor);
      };
      const mode = createListMode(picker, { paint, redraw, done });
      given.interrupt.addEventListener("abort", () => done(undefined), { once: true });
      keys = openKeys(given.stdin.terminal(), {
        press: (text, key) => {
          mode.press(text, key);
          redraw();
        },
        paste: (text) => {
          mode.paste(text);
          redraw();
        },
        end: () => done(undefined),
      });
      redraw();
    });
  } finally {
    keys?.close();
    screen.close();
  }
}
