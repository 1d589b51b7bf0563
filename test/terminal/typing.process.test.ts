import { expect, it } from "vitest";
import { openControlledModel } from "../support/controlled-model.ts";
import { EMPTY_PROMPT, IS_OVER, openChat, openTerminal, type Terminal, withTerminal } from "../support/terminal.ts";

/** Opens a chat, does something at it, sends it, and returns what arrived at the model. */
async function sent(work: (terminal: Terminal) => Promise<void>): Promise<string> {
  const model = await openControlledModel();
  const terminal = await openChat({ model });
  await work(terminal);
  await terminal.press("Enter");
  const call = await model.next();
  call.say("Thank you.");
  call.end();
  await terminal.until("Thank you.");
  return call.newest;
}

withTerminal("[G5] a paste into a chat", () => {
  it("of one line is sent by Enter", async () => {
    expect(await sent((terminal) => terminal.paste("what is this; and that?"))).toBe("what is this; and that?");
  });

  it("of 200 lines is one prompt, and what is typed after it belongs to it", async () => {
    const lines = Array.from({ length: 200 }, (_, at) => `line ${at + 1} of the paste`).join("\n");
    const received = await sent(async (terminal) => {
      await terminal.paste(lines);
      await terminal.type(" and this");
    });
    expect(received).toBe(`${lines} and this`);
  });

  it("with a tab keeps it", async () => {
    expect(await sent((terminal) => terminal.paste("a\tb\n\tc"))).toBe("a\tb\n\tc");
  });

  // Today each is the key that sends it: Ctrl-C drops the line.
  it("with control characters and escape sequences is text: nothing of it is done", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    const title = await terminal.value("pane_title");
    await terminal.paste("before \u001b]0;stolen\u0007 \u001b[2J \u0003 \u0004 \u0015 \u007f after");
    await terminal.press("Enter");
    const { newest } = await model.next();
    expect(newest).toMatch(/^before .* after$/);
    expect(await terminal.value("pane_title")).toBe(title);
    expect(await terminal.screen({ isWhole: true })).toContain("/help lists commands");
  });

  it("during an answer waits for its end", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.enter("Hello?");
    const call = await model.next();
    call.say("Let me think.\n\n");
    await terminal.until("Let me think.");
    await terminal.paste("one\ntwo\nthree");
    call.say("I have thought about it.");
    call.end();
    await terminal.until(IS_OVER);
    await terminal.press("Enter");
    const { newest } = await model.next();
    expect(newest).toBe("one\ntwo\nthree");
    expect(await terminal.screen({ isJoined: true, isWhole: true })).toContain("I have thought about it.");
  });
});

withTerminal("[G5] typing in a chat", () => {
  const words = ["你好，世界", "cafe\u0301s", "👩‍👩‍👧‍👦 family", "नमस्ते", "שלום", "مرحبا"];
  for (const word of words) {
    it(`sends ${word} as it was typed, before and after it too`, async () => {
      const received = await sent(async (terminal) => {
        await terminal.type(word);
        await terminal.press("Home");
        await terminal.type("<");
        await terminal.press("End");
        await terminal.type(">");
      });
      expect(received).toBe(`<${word}>`);
    });
  }

  // Today an arrow goes to the middle of a family, and between a letter and its accent.
  it("goes left over what looks like one character", async () => {
    const received = await sent(async (terminal) => {
      await terminal.type("你好👩‍👩‍👧‍👦e\u0301");
      await terminal.press("Left");
      await terminal.type("1");
      await terminal.press("Left", "Left");
      await terminal.type("2");
      await terminal.press("Left", "Left");
      await terminal.type("3");
    });
    expect(received).toBe("你3好2👩‍👩‍👧‍👦1e\u0301");
  });

  // Today it takes a family apart.
  it("deletes what looks like one character by one key", async () => {
    const received = await sent(async (terminal) => {
      await terminal.type("a你b👩‍👩‍👧‍👦");
      await terminal.press("BSpace", "BSpace", "BSpace");
      await terminal.type("c");
    });
    expect(received).toBe("ac");
  });

  it("shows a line that is wider than the screen while it is edited", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, columns: 40 });
    const line = Array.from({ length: 12 }, (_, at) => `word${at + 1}`).join(" ");
    await terminal.type(line);
    await terminal.until("word12");
    await terminal.press("Home");
    await terminal.type("first ");
    await terminal.press("End");
    await terminal.type(" last");
    await terminal.press("Enter");
    expect((await model.next()).newest).toBe(`first ${line} last`);
  });

  it("goes on when the window is resized in the middle of it", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, columns: 40 });
    const typed = Array.from({ length: 30 }, (_, at) => `w${at + 1}`);
    await terminal.type(typed.slice(0, 10).join(" "));
    await terminal.until("w10");
    await terminal.resize(120, 24);
    await terminal.type(` ${typed.slice(10, 20).join(" ")}`);
    await terminal.until("w20");
    await terminal.resize(60, 24);
    await terminal.type(` ${typed.slice(20).join(" ")}`);
    await terminal.until("w30");
    await terminal.press("Enter");
    const call = await model.next();
    expect(call.newest).toBe(typed.join(" "));
    call.say("Thank you.");
    call.end();
    const shown = await terminal.until("Thank you.");
    expect(shown.match(/\bw\d+\b/g)).toEqual(typed);
  });

  // Today it ends after fg, with a warning of Node about an unsettled await.
  it("is stopped by Ctrl-Z and goes on after fg", async () => {
    const model = await openControlledModel();
    const terminal = await openTerminal(["bash", "--norc", "--noprofile", "-i"], { model, env: { PS1: "bash: " } });
    await terminal.until("bash:");
    await terminal.enter("rkat chat");
    await terminal.until(EMPTY_PROMPT);
    await terminal.type("half");
    await terminal.until("> half");
    await terminal.press("C-z");
    await terminal.until(/Stopped/);
    await terminal.enter("echo in the shell $((6 * 7))");
    await terminal.until("in the shell 42");
    await terminal.enter("fg");
    await terminal.until(/fg\n[\s\S]*> half/);
    await terminal.enter(" a word");
    const call = await model.next();
    expect(call.newest).toBe("half a word");
    call.say("Welcome back.");
    call.end();
    await terminal.until("Welcome back.");
  });
});
