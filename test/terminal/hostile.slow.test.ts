import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { openControlledModel, WAIT_MS_MAX } from "../support/controlled-model.ts";
import { IS_OVER, openChat, openTerminal, type Terminal, withTerminal } from "../support/terminal.ts";

/** What could steer a terminal, by what it would do. */
const ATTACKS = {
  "rename the window": "\u001b]0;stolen\u0007\u001b]2;stolen\u001b\\\u001bkstolen\u001b\\",
  "write to the clipboard": `\u001b]52;c;${btoa("stolen")}\u0007`,
  "pass a link off": "\u001b]8;;http://127.0.0.1/stolen\u001b\\",
  "move the cursor": "\u001b[1;1H\u001b[20A\u001b[5D\u001b7\u001b8\u001bM\r\b\b\b",
  "clear the screen": "\u001b[2J\u001b[3J\u001bc",
  "take another screen": "\u001b[?1049h\u001b[?1000h\u001b[?25l",
  "speak to what is around it": "\u001bPtmux;\u001b\u001b]0;stolen\u0007\u001b\\\u001bP+q544e\u001b\\",
  "ask for an answer": "\u001b[6n\u001b[c\u001b]11;?\u0007\u0005",
  "do so in one byte": "\u009b2J\u009d0;stolen\u009c\u0090tmux;\u009c\u0084\u0085\u008d",
  ring: "\u0007\u0007",
};
const ALL = Object.values(ATTACKS).join(" and ");

/** The terminal's state that a text may not change. */
async function stateOf(terminal: Terminal): Promise<readonly string[]> {
  const names = ["pane_title", "window_name", "alternate_on", "mouse_any_flag", "cursor_flag", "window_bell_flag"];
  const values = names.map(async (name) => `${name}: ${await terminal.value(name)}`);
  return Promise.all([...values, terminal.tmux("list-buffers", "-F", "clipboard: #{buffer_sample}")]);
}

withTerminal("[G5] what steers a terminal", () => {
  it("is let through by the terminal of these tests", async () => {
    const terminal = await openTerminal(["sh", "-c", 'read x; printf %s "$1"', "sh", ALL]);
    const before = await stateOf(terminal);
    await terminal.press("Enter");
    await terminal.exit();
    const changed = (await stateOf(terminal)).filter((value) => !before.includes(value));
    expect(changed).toEqual([
      "pane_title: stolen",
      "window_name: stolen",
      "alternate_on: 1",
      "mouse_any_flag: 1",
      "cursor_flag: 0",
      "window_bell_flag: 1",
      "clipboard: stolen\n",
    ]);
  });

  for (const [deed, attack] of Object.entries(ATTACKS)) {
    it(`does not ${deed} when a model says it`, async () => {
      const model = await openControlledModel();
      const terminal = await openChat({ model });
      const before = await stateOf(terminal);
      const written = join(terminal.folder, "written");
      await terminal.tmux("pipe-pane", `cat >'${written}'`);
      await terminal.enter("Hello?");
      const call = await model.next();
      call.say(`Here it begins,\n\n`);
      for (const sign of attack) call.say(sign);
      call.say(" and then\n\n");
      call.say(`\`${attack}\` and\n\n\`\`\`\n${attack}\n\`\`\`\n\nhere it ends.`);
      call.end();
      const shown = await terminal.until(IS_OVER);
      const parts = ["/help lists commands", "Hello?", "Here it begins,", "and then", "here it ends."];
      const places = parts.map((part) => shown.indexOf(part));
      expect(places).toEqual(places.toSorted((one, other) => one - other));
      expect(places).not.toContain(-1);
      expect(await stateOf(terminal)).toEqual(before);
      await vi.waitFor(async () => expect(await readFile(written, "utf8")).toContain("here it ends."), WAIT_MS_MAX);
      // Which this terminal does not obey, and others do.
      expect(await readFile(written, "utf8")).not.toMatch(/[\u0080-\u009f]/);
      await terminal.enter("And now?");
      // An answer that the terminal was asked for would have been typed into the prompt.
      expect((await model.next()).newest).toBe("And now?");
    });
  }

  it("does nothing in what a tool was asked and what it answers", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, args: ["-t", "workspace", "-v"] });
    const before = await stateOf(terminal);
    await terminal.enter("Look.");
    const call = await model.next();
    call.think(`thinking ${ALL} aloud`);
    const octal = [...Buffer.from(ALL)].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
    call.callTool("shell", { command: `printf '${octal}'; echo ${ALL}; exit 3` });
    await terminal.until("exit 3\n");
    await terminal.enter("y");
    const reported = await model.next();
    reported.callTool(`no ${ALL} tool`, { name: ALL });
    const second = await model.next();
    second.say("That was it.");
    second.end();
    const shown = await terminal.until((text) => text.includes("That was it.") && IS_OVER(text));
    expect(shown).toContain("/help lists commands");
    expect(await stateOf(terminal)).toEqual(before);
  });

  it("does nothing in a name of a file, and in what a list of sessions quotes", async () => {
    const model = await openControlledModel();
    const name = `a${ALL.replaceAll("/", "")}b`.slice(0, 80);
    const refused = 'rkat run x --schema "$1"; rkat run x --file "$1"';
    const script = `mkdir "$1"; cd "$1"; rkat run "$2"; rkat session list; ${refused}; rkat doctor`;
    const terminal = await openTerminal(["sh", "-c", script, "sh", name, `first ${ALL} last`], { model, columns: 200 });
    const before = await stateOf(terminal);
    const call = await model.next();
    call.say("Begun.");
    call.end();
    await terminal.exit();
    expect(await terminal.screen({ isWhole: true })).toContain("Begun.");
    expect(await stateOf(terminal)).toEqual(before);
  });

  // Today the signs that do so are shown as they come.
  it("does not turn the order of letters around", async () => {
    const model = await openControlledModel();
    const terminal = await openTerminal(["rkat", "run", "Hello?"], { model });
    const call = await model.next();
    call.say("run \u202etxt.exe\u202c and \u2066this\u2069 and \u200fthat\u061c.");
    call.end();
    await terminal.exit();
    const shown = await terminal.screen();
    expect(shown).not.toMatch(/[\u202a-\u202e\u2066-\u2069]/);
    expect(shown).toContain("run ‹U+202E›txt.exe");
  });
});
