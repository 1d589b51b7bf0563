import { expect, it } from "vitest";
import { openControlledModel } from "../support/controlled-model.ts";
import { IS_OVER, openChat, openTerminal, withTerminal } from "../support/terminal.ts";

const MARKDOWN = `# The heron

A heron stood in the **pond** and waited for a _frog_; it had \`patience\` enough for the whole long afternoon.

- the first thing that it saw was a **dragonfly** over the reeds of the other bank
- the second was nothing

1. wade
2. wait

| bird | legs | colour |
| ---- | ---: | ------ |
| heron | 2 | grey |
| stork | 2 | white |

\`\`\`js
const heron = "still";
\`\`\`

> Herons are said to be more patient than anybody who watches them.

That was all.
`;

/** The words a person reads, without the signs that stand around them. */
function wordsOf(text: string): readonly string[] {
  return text.match(/[A-Za-z0-9]+/g) ?? [];
}

withTerminal("[G5] an answer at a terminal", () => {
  for (const columns of [40, 80, 200]) {
    it(`is shown as what its Markdown means, ${columns} columns wide`, async () => {
      const model = await openControlledModel();
      const terminal = await openTerminal(["rkat", "run", "Tell me."], { model, columns, rows: 50 });
      const call = await model.next();
      await call.saySlowly(MARKDOWN);
      call.end();
      await terminal.exit();
      const upToEnd = (text: string): string => text.slice(0, text.indexOf("That was all.") + "That was all.".length);
      const shown = upToEnd(await terminal.screen());
      expect(wordsOf(shown)).toEqual(wordsOf(MARKDOWN));
      expect(shown).not.toMatch(/\*\*|^# |```|`|---|_frog_/m);
      // The terminal had no line to wrap.
      expect(upToEnd(await terminal.screen({ isJoined: true }))).toBe(shown);
    });
  }

  it("is shown piece by piece, before it has ended", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.enter("Tell me.");
    const call = await model.next();
    call.say("The first paragraph.\n\nThe ");
    await terminal.until("The first paragraph.");
    call.say("second one.\n\n");
    await terminal.until("The second one.");
    call.end();
  });

  it("is there once and in order when the window is resized in the middle of it", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, columns: 40 });
    await terminal.enter("Count.");
    const call = await model.next();
    const words = Array.from({ length: 300 }, (_, at) => `w${at + 1}`);
    let said = 0;
    for (const columns of [120, 60, 40]) {
      await call.saySlowly(`${words.slice(said, said + 75).join(" ")} `, 7);
      said += 75;
      // The newest word waits for what shows that it is one.
      await terminal.until(`w${said - 1}`);
      await terminal.resize(columns, 24);
    }
    await call.saySlowly(words.slice(said).join(" "), 7);
    call.end();
    const shown = await terminal.until(IS_OVER);
    expect(shown.match(/\bw\d+\b/g)).toEqual(words);
  });

  // Today the width is that of the window at the start.
  it("is wrapped for the window as it is now, and not as it was", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, columns: 120 });
    await terminal.enter("Count.");
    const call = await model.next();
    call.say("Here it begins.\n\n");
    await terminal.until("Here it begins.");
    await terminal.resize(45, 24);
    const words = Array.from({ length: 60 }, (_, at) => `heron${at + 1}`);
    await call.saySlowly(`${words.join(" ")}\n\nHere it ends.`, 7);
    call.end();
    await terminal.until("Here it ends.");
    expect((await terminal.screen({ isWhole: true })).match(/\bheron\d+\b/g)).toEqual(words);
  });

  it("of 10,000 lines is all there, in order, with its end on the screen", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.enter("Count.");
    const call = await model.next();
    const lines = Array.from({ length: 10_000 }, (_, at) => `line ${at + 1}`);
    for (let at = 0; at < lines.length; at += 50) {
      await call.saySlowly(
        `${lines
          .slice(at, at + 50)
          .map((line) => `- ${line}\n`)
          .join("")}`,
        400,
      );
    }
    call.end();
    const shown = await terminal.until(IS_OVER);
    expect(shown.match(/line \d+/g)).toEqual(lines);
    expect(await terminal.screen()).toContain("line 10000");
  });

  it("comes after a failure of the model that is waited out", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, config: '[retry]\ninitial_delay = "1ms"' });
    await terminal.enter("Hello?");
    (await model.next()).refuse(500);
    const broken = await model.next();
    broken.say("Half an ");
    broken.hangUp();
    const call = await model.next();
    call.say("The whole answer.");
    call.end();
    const shown = await terminal.until("The whole answer.");
    expect(shown).toContain("retrying in");
  });
});
