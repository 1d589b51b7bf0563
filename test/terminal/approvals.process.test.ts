import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openControlledModel } from "../support/controlled-model.ts";
import { openChat, withTerminal } from "../support/terminal.ts";

withTerminal("[G5] a question about a tool in a chat", () => {
  // Today the prompt is drawn over it.
  it("says what can be answered", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, args: ["-t", "workspace"] });
    await terminal.enter("Make a file.");
    (await model.next()).callTool("shell", { command: "touch made" });
    await terminal.until(/Run it\?.*\n +y +once\n +s +for this session/);
  });

  it("is answered y, and the command runs once", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, args: ["-t", "workspace"] });
    await terminal.enter("Make a file.");
    (await model.next()).callTool("shell", { command: "touch made && echo it is made" });
    await terminal.until((text) => text.split("touch made && echo it is made").length > 2);
    expect(existsSync(join(terminal.folder, "made"))).toBe(false);
    await terminal.enter("y");
    const reported = await model.next();
    expect(reported.newest).toContain("it is made");
    reported.callTool("shell", { command: "touch again" });
    await terminal.until((text) => text.split("touch again").length > 2);
    await terminal.enter("n");
    const second = await model.next();
    second.say("Done.");
    second.end();
    await terminal.until("Done.");
    expect(existsSync(join(terminal.folder, "again"))).toBe(false);
  });

  it("is answered s, and the same command is not asked about again", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, args: ["-t", "workspace"] });
    await terminal.enter("Look.");
    (await model.next()).callTool("shell", { command: "git --version" });
    await terminal.until((text) => text.split("git --version").length > 2);
    await terminal.enter("s");
    const reported = await model.next();
    expect(reported.newest).toContain("git version");
    reported.callTool("shell", { command: "git --version" });
    const second = await model.next();
    expect(second.newest).toContain("git version");
    second.say("Looked twice.");
    second.end();
    const shown = await terminal.until("Looked twice.");
    // When it was wanted, and when it was asked about; then when it was wanted again.
    expect(shown.match(/^. ?shell: git --version$/gm)).toHaveLength(2);
    expect(shown.match(/^ +git --version$/gm)).toHaveLength(1);
  });

  it("is answered with a reason, which the model is told", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, args: ["-t", "workspace"] });
    await terminal.enter("Clean up.");
    (await model.next()).callTool("shell", { command: "rm -rf build" });
    await terminal.until((text) => text.split("rm -rf build").length > 2);
    await terminal.type("r");
    await terminal.until("Why not?");
    await terminal.enter("not before the backup is done");
    const reported = await model.next();
    expect(reported.newest).toContain("not before the backup is done");
    reported.say("I wait for it.");
    reported.end();
    await terminal.until("I wait for it.");
  });
});
