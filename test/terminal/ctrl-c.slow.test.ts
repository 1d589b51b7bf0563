import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { type ControlledModel, openControlledModel, WAIT_MS_MAX } from "../support/controlled-model.ts";
import { IS_OVER, openChat, openTerminal, type Terminal, withTerminal } from "../support/terminal.ts";

/** Says something else, which the model hears and answers. */
async function goOn(terminal: Terminal, model: ControlledModel): Promise<void> {
  await terminal.enter("Are you still there?");
  const call = await model.next();
  expect(call.newest).toBe("Are you still there?");
  call.say("I have been here all along.");
  call.end();
  await terminal.until("I have been here all along.");
}

/** Ends a chat and looks at what is left of it. */
async function leave(terminal: Terminal): Promise<void> {
  await terminal.press("C-d");
  expect(await terminal.exit()).toBe(0);
  expect(await terminal.leftovers()).toEqual([]);
}

withTerminal("[G5] Ctrl-C in a chat", () => {
  it("twice on an empty line ends it, and leaves the terminal as it was", async () => {
    const terminal = await openChat({ model: await openControlledModel() });
    await terminal.press("C-c");
    await terminal.until("Press Ctrl-C again");
    await terminal.press("C-c");
    expect(await terminal.exit()).toBe(0);
    expect(await terminal.leftovers()).toEqual([]);
  });

  it("drops a line that is half typed", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.type("half a thou");
    await terminal.until("half a thou");
    await terminal.press("C-c");
    await goOn(terminal, model);
    await leave(terminal);
  });

  it("stops an answer, hangs up on the model, and keeps what was said", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.enter("Hello?");
    const call = await model.next();
    call.say("Here is the **first** part\n\nand ");
    await terminal.until("Here is the first part");
    await terminal.press("C-c");
    await terminal.until("Interrupted.");
    await vi.waitFor(() => expect(call.isHungUp).toBe(true), WAIT_MS_MAX);
    await terminal.enter("What did you say?");
    const second = await model.next();
    expect(JSON.stringify(second.messages)).toContain("Here is the **first** part");
    second.say("The first part.");
    second.end();
    await terminal.until("The first part.");
    await leave(terminal);
  });

  it("stops a model that has not said anything yet", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.enter("Hello?");
    await model.next();
    await terminal.press("C-c");
    await terminal.until("Interrupted.");
    await goOn(terminal, model);
    await leave(terminal);
  });

  it("stops a command that a model runs, and the command is gone", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, args: ["-t", "workspace", "--yes"] });
    await terminal.enter("Wait for me.");
    const call = await model.next();
    call.callTool("shell", { command: "mkfifo never; echo $$ > pid; read x < never" });
    const pid = await vi.waitFor(async () => {
      const reported = Number(await readFile(join(terminal.folder, "pid"), "utf8"));
      expect(reported).toBeGreaterThan(0);
      return reported;
    }, WAIT_MS_MAX);
    await terminal.press("C-c");
    await terminal.until("Interrupted.");
    await vi.waitFor(() => expect(() => process.kill(pid, 0)).toThrow("ESRCH"), WAIT_MS_MAX);
    await goOn(terminal, model);
    await leave(terminal);
  });

  it("stops the wait before a model is asked again", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, config: '[retry]\ninitial_delay = "30s"' });
    await terminal.enter("Hello?");
    (await model.next()).refuse(429);
    await terminal.until("retrying in");
    await terminal.press("C-c");
    await terminal.until("Interrupted.");
    await goOn(terminal, model);
    await leave(terminal);
  });

  // Today the chat says that it was interrupted, and the turn goes on with the call denied.
  it("takes the place of an answer to a question, and nothing is run", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, args: ["-t", "workspace"] });
    await terminal.enter("Make a file.");
    (await model.next()).callTool("shell", { command: "touch made" });
    await terminal.until((text) => text.split("touch made").length > 2);
    await terminal.press("C-c");
    await terminal.until("Interrupted.");
    await goOn(terminal, model);
    await leave(terminal);
    await expect(readFile(join(terminal.folder, "made"))).rejects.toThrow("ENOENT");
  });

  it("stops a command that was asked about and allowed, and the session goes on", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, args: ["-t", "workspace"] });
    await terminal.enter("Wait.");
    (await model.next()).callTool("shell", { command: "mkfifo held; read line < held" });
    await terminal.until("Run it?");
    await terminal.enter("y");
    await terminal.until(/shell: mkfifo held; read line < held… \d+ s/);
    await terminal.press("C-c");
    await terminal.until("Interrupted.");
    await goOn(terminal, model);
    await leave(terminal);
  });

  it("stops a compaction", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    for (let turn = 1; turn <= 6; turn += 1) {
      await terminal.enter(`Question ${turn}`);
      const call = await model.next();
      call.say(`Answer ${turn}. ${"It is a long story. ".repeat(20)}`);
      call.end();
      await terminal.until((text) => text.includes(`Answer ${turn}.`) && IS_OVER(text));
    }
    await terminal.enter("/compact");
    await model.next();
    await terminal.press("C-c");
    await terminal.until("Interrupted.");
    await goOn(terminal, model);
    await leave(terminal);
  });

  it("pressed twice in an answer leaves nothing stuck", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.enter("Hello?");
    (await model.next()).say("Well, yes\n\n");
    await terminal.until("Well, yes");
    await terminal.press("C-c", "C-c");
    await terminal.until("Interrupted.");
    // The second may have come when the answer had ended already, and then ended the chat.
    await leave(terminal);
  });
});

withTerminal("[G5] Ctrl-C in a run", () => {
  it("ends it with 130 and keeps what was said", async () => {
    const model = await openControlledModel();
    const terminal = await openTerminal(
      ["sh", "-c", "trap : INT; rkat run 'Hello?'; echo first $?; rkat session list"],
      { model },
    );
    (await model.next()).say("Here is a part\n\nand ");
    await terminal.until("Here is a part");
    await terminal.press("C-c");
    const shown = await terminal.until("first 130");
    expect(shown).toContain("Interrupted.");
    expect(await terminal.exit()).toBe(0);
    expect(await terminal.screen({ isJoined: true })).toMatch(/Hello\?/);
    expect(await terminal.leftovers()).toEqual([]);
  });

  it("pressed twice ends it as well", async () => {
    const model = await openControlledModel();
    const terminal = await openTerminal(["rkat", "run", "Hello?"], { model });
    await model.next();
    await terminal.press("C-c", "C-c");
    expect(await terminal.exit()).toBe(130);
    expect(await terminal.leftovers()).toEqual([]);
  });

  it("leaves a question about a tool unanswered, and nothing is run", async () => {
    const model = await openControlledModel();
    const terminal = await openTerminal(["rkat", "run", "Make a file.", "-t", "workspace", "--ask", "shell"], {
      model,
    });
    (await model.next()).callTool("shell", { command: "touch made" });
    await terminal.until("Run it?");
    await terminal.press("C-c");
    expect(await terminal.exit()).toBe(130);
    expect(await terminal.leftovers()).toEqual([]);
    await expect(readFile(join(terminal.folder, "made"))).rejects.toThrow("ENOENT");
  });
});

withTerminal("[G5] the end of a chat", () => {
  it("is Ctrl-D on an empty line, which says how to come back", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await goOn(terminal, model);
    await leave(terminal);
    expect(await terminal.screen()).toContain("Come back with: rkat chat --resume");
  });

  it("is Ctrl-D during an answer, which is not cut off by it", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.enter("Hello?");
    const call = await model.next();
    call.say("One moment.\n\n");
    await terminal.until("One moment.");
    await terminal.press("C-d");
    call.say("There it is.");
    call.end();
    await terminal.until("There it is.");
    expect(await terminal.exit()).toBe(0);
    expect(await terminal.leftovers()).toEqual([]);
  });

  it("is a SIGTERM while a prompt is typed", async () => {
    const terminal = await openChat({ model: await openControlledModel() });
    await terminal.type("half a thou");
    await terminal.until("half a thou");
    await terminal.signal("SIGTERM");
    expect(await terminal.exit()).toBe(143);
    expect(await terminal.leftovers()).toEqual([]);
  });

  it("is a SIGTERM during an answer, which is hung up on", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.enter("Hello?");
    const call = await model.next();
    call.say("Well, yes\n\n");
    await terminal.until("Well, yes");
    await terminal.signal("SIGTERM");
    expect(await terminal.exit()).toBe(143);
    await vi.waitFor(() => expect(call.isHungUp).toBe(true), WAIT_MS_MAX);
    expect(await terminal.leftovers()).toEqual([]);
  });

  // Today the terminal is left without echo, and with marks around pastes.
  it("is a SIGHUP from elsewhere, which leaves the terminal as it was", async () => {
    const terminal = await openChat({ model: await openControlledModel() });
    await terminal.signal("SIGHUP");
    expect(await terminal.exit()).toBe(129);
    expect(await terminal.leftovers()).toEqual([]);
  });

  it("comes with the window, and nothing of it stays behind", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.enter("Hello?");
    const call = await model.next();
    call.say("Well, yes\n\n");
    await terminal.until("Well, yes");
    await terminal.tmux("kill-server");
    await vi.waitFor(() => expect(call.isHungUp).toBe(true), WAIT_MS_MAX);
  });
});
