import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openControlledModel } from "../support/controlled-model.ts";
import { openChat, withTerminal } from "../support/terminal.ts";

withTerminal("[G5] a question that comes while somebody types", () => {
  it("is not answered by the last letter of the line", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, args: ["-t", "workspace"] });
    await terminal.enter("Make a file.");
    const call = await model.next();
    await terminal.type("carefull");
    await terminal.until("> carefull");
    call.callTool("shell", { command: "touch made" });
    await terminal.until(/^ +touch made$/m);
    await terminal.enter("y");
    await terminal.until("then: carefully");
    await terminal.until("Run it?");
    expect(existsSync(join(terminal.folder, "made"))).toBe(false);
    await terminal.enter("n");
    const reported = await model.next();
    expect(reported.newest).toContain("the user denied it");
    reported.say("Then not.");
    reported.end();
    expect((await model.next()).newest).toBe("carefully");
    expect(existsSync(join(terminal.folder, "made"))).toBe(false);
  });

  it("is not answered by what is looked for in a list", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, args: ["-t", "workspace"] });
    await terminal.enter("Be happy and make a file.");
    const call = await model.next();
    await terminal.press("C-r");
    await terminal.until("Typed before");
    await terminal.type("happ");
    await terminal.until("? happ");
    call.callTool("shell", { command: "touch made" });
    await terminal.until(/^ +touch made$/m);
    await terminal.enter("y");
    await terminal.until("> Be happy and make a file.");
    await terminal.press("C-u");
    await terminal.until("Run it?");
    await terminal.enter("n");
    await model.next();
    expect(existsSync(join(terminal.folder, "made"))).toBe(false);
  });
});
