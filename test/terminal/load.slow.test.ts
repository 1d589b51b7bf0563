import { expect, it } from "vitest";
import { openControlledModel } from "../support/controlled-model.ts";
import { openChat, withTerminal } from "../support/terminal.ts";

withTerminal("[G5] a chat that is given much", () => {
  it("takes 20,000 keys without falling behind for minutes", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    const part = `${"ab ".repeat(333)}x`;
    for (let at = 0; at < 20; at += 1) await terminal.type(part);
    await terminal.press("Enter");
    expect((await model.next()).newest).toBe(part.repeat(20));
  }, 20_000);

  it("stops a command without an end at Ctrl-C, and goes on", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.enter("!yes");
    await terminal.until("y\ny\ny");
    await terminal.press("C-c");
    await terminal.until("(stopped by the user;");
    await terminal.enter("hello");
    expect((await model.next()).newest).toContain("hello");
  });

  it("lives through a window of one cell and many sizes", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.resize(1, 1);
    await terminal.type("hello");
    await terminal.resize(3, 2);
    await terminal.enter(" you");
    const call = await model.next();
    expect(call.newest).toBe("hello you");
    call.say("# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```js\nlet x = 1\n```\n\nsome words 你好");
    for (let at = 0; at < 30; at += 1) {
      const [columns, rows] = [1 + ((at * 37) % 200), 1 + ((at * 13) % 60)];
      await terminal.tmux("resize-window", "-x", String(columns), "-y", String(rows));
    }
    call.end();
    await terminal.resize(80, 24);
    await terminal.enter("again");
    expect((await model.next()).newest).toBe("again");
  });
});
