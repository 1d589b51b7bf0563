import { expect, it } from "vitest";
import { openControlledModel } from "./controlled-model.ts";
import { openTerminal, withTerminal } from "./terminal.ts";

withTerminal("a terminal of a test", () => {
  it("types, presses, pastes and resizes, and tells how a command ended", async () => {
    const terminal = await openTerminal(["sh", "-c", "read a; read b; stty size; echo $a-$b; exit 7"]);
    await terminal.type("one;");
    await terminal.press("Enter");
    await terminal.until("one;");
    await terminal.resize(100, 30);
    await terminal.paste("two\n");
    expect(await terminal.exit()).toBe(7);
    expect(await terminal.screen()).toBe("one;\ntwo\n30 100\none;-two\n[exit 7]");
    expect(await terminal.leftovers()).toEqual([]);
  });

  it("has nothing of the environment around it but the path", async () => {
    const terminal = await openTerminal(["sh", "-c", "env | cut -d= -f1 | sort | xargs"]);
    await terminal.exit();
    const names = "HOME LC_ALL OLDPWD PATH PWD SHELL TERM TERM_PROGRAM TERM_PROGRAM_VERSION TMUX TMUX_PANE".split(" ");
    const [shown = ""] = (await terminal.screen({ isJoined: true })).split("\n");
    expect(shown.split(" ").filter((name) => !names.includes(name) && name !== "_")).toEqual([]);
  });

  it("tells what a command left behind", async () => {
    const leaving = "stty -echo -icanon; printf '\\033[?2004h\\033[?25l\\033[?1049h'";
    const terminal = await openTerminal(["sh", "-c", `${leaving}; cat -v & stty echo; kill $!; stty -icanon`]);
    await terminal.exit();
    expect(await terminal.leftovers()).toEqual(["no icanon", "marks around pastes", "alternate_on", "no cursor"]);
  });

  it("has a model that says what it is told to, when it is told to", async () => {
    const model = await openControlledModel();
    const terminal = await openTerminal(["rkat", "run", "What now?", "-v"], { model });
    const call = await model.next();
    expect(call.newest).toBe("What now?");
    call.think("hm");
    call.say("This");
    call.say(" then.");
    call.end();
    const shown = await terminal.until("This then.");
    expect(await terminal.exit()).toBe(0);
    expect(shown).toContain("thought: hm");
  });
});
