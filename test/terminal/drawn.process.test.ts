import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openControlledModel } from "../support/controlled-model.ts";
import { EMPTY_PROMPT, IS_OVER, openChat, openTerminal, withTerminal } from "../support/terminal.ts";

withTerminal("[G5] a chat that is drawn", () => {
  it("says what happens, folds what was thought and answered, and says how things stand", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, args: ["-t", "workspace", "--yes"] });
    await terminal.enter("Look around.");
    const call = await model.next();
    await terminal.until(/asking .*… \d+ s · Ctrl-C stops/);
    call.think("I should look at the files.");
    await terminal.until(/thinking… \d+ s/);
    call.callTool("shell", { command: "mkfifo held; read line < held" });
    await terminal.until(/thought .*: I should look at the files\./);
    await terminal.until(/shell: mkfifo held; read line < held… \d+ s/);
    await terminal.press("C-c");
    await terminal.until("Interrupted.");
    // The line is read after the prompt is shown again.
    await terminal.until(/\nlocal\/told · context \d+ % of 100k.* · tools workspace\s*$/);
  });

  it("keeps what is typed while it answers, in sight, and sends it afterwards", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.enter("First.");
    const first = await model.next();
    first.say("It begins.\n\n");
    await terminal.until("It begins.");
    await terminal.enter("Second.");
    await terminal.until("then: Second.");
    await terminal.type("half");
    await terminal.until("> half");
    first.say("It ends.\n\n");
    first.end();
    const second = await model.next();
    expect(second.newest).toBe("Second.");
    second.say("Done.");
    second.end();
    const shown = await terminal.until((text) => text.includes("Done.") && IS_OVER(text));
    expect(shown).toMatch(/It begins\.\n+It ends\.\n+> Second\.\n+Done\.\n+> half\n/);
  });

  it("puts what waits back into the line when the answer is stopped", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.enter("First.");
    await model.next();
    await terminal.enter("Second.");
    await terminal.until("then: Second.");
    await terminal.press("C-c");
    await terminal.until("Interrupted.");
    await terminal.until("> Second.");
    await terminal.enter(" Changed.");
    expect((await model.next()).newest).toBe("Second. Changed.");
  });

  it("brings back with the next chat what was asked in the last, by a key and by a search", async () => {
    const model = await openControlledModel();
    const terminal = await openTerminal(["bash", "--norc", "--noprofile", "-i"], { model, env: { PS1: "bash: " } });
    for (const prompt of ["Count the herons.", "Name the owls."]) {
      await terminal.until(/bash:\s*$/);
      await terminal.enter("clear; rkat chat");
      await terminal.until(EMPTY_PROMPT);
      await terminal.enter(prompt);
      const call = await model.next();
      call.say("Yes.");
      call.end();
      await terminal.until((text) => text.includes("Yes.") && IS_OVER(text));
      await terminal.press("C-d");
    }
    await terminal.until(/bash:\s*$/);
    await terminal.enter("clear; rkat chat");
    await terminal.until(EMPTY_PROMPT);
    await terminal.press("Up");
    await terminal.until("> Name the owls.");
    await terminal.press("C-c");
    await terminal.until(EMPTY_PROMPT);
    await terminal.press("C-r");
    await terminal.until("Typed before");
    await terminal.type("heron");
    await terminal.until((text) => text.includes("❯ Count the herons.") && !text.includes("Name the owls.\n"));
    await terminal.press("Enter");
    await terminal.until("> Count the herons.");
    await terminal.press("Enter");
    expect((await model.next()).newest).toBe("Count the herons.");
  });

  it("completes commands and files by Tab, and takes a text of several lines from an editor", async () => {
    const model = await openControlledModel();
    const editor = "#!/bin/sh\nprintf 'one\\ntwo @notes.txt\\n' > \"$1\"\n";
    const terminal = await openTerminal(["bash", "--norc", "--noprofile", "-i"], {
      model,
      env: { PS1: "bash: ", EDITOR: "./edit" },
    });
    await terminal.until(/bash:\s*$/);
    await writeFile(join(terminal.folder, "edit"), editor);
    await chmod(join(terminal.folder, "edit"), 0o700);
    await writeFile(join(terminal.folder, "notes.txt"), "The heron stands.\n");
    await terminal.enter("clear; rkat chat");
    await terminal.until(EMPTY_PROMPT);
    await terminal.type("/rec");
    await terminal.until("/receipt ");
    await terminal.press("Tab");
    await terminal.until(/> \/receipt/);
    await terminal.press("C-c");
    await terminal.until(EMPTY_PROMPT);
    await terminal.type("see @no");
    await terminal.press("Tab");
    await terminal.until("> see @notes.txt");
    await terminal.press("C-g");
    await terminal.until(/> one\n {2}two @notes\.txt/);
    await terminal.press("Enter");
    const call = await model.next();
    expect(call.newest).toContain("one\ntwo notes.txt");
    expect(call.newest).toContain("The heron stands.");
    await terminal.until("attached notes.txt");
  });

  it("lets one choose by typing in a list, and leaves everything as it was at Esc", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.enter("/model");
    await terminal.until("type to search");
    await terminal.type("offl");
    await terminal.until("❯ offline");
    await terminal.press("Escape");
    await terminal.until(EMPTY_PROMPT);
    await terminal.enter("/model");
    await terminal.until("type to search");
    await terminal.type("offl");
    await terminal.until("❯ offline");
    await terminal.press("Enter");
    await terminal.until((text) => /\noffline\b.*\s*$/.test(text));
  });
});
