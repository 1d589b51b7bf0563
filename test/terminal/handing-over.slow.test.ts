import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { openControlledModel, WAIT_MS_MAX } from "../support/controlled-model.ts";
import { openChat, withTerminal } from "../support/terminal.ts";

/** A program to edit with that waits until a file is there; it says where its own is, and what it was given. */
const SLOW_EDITOR = `sh -c 'echo editing "$1"; while [ ! -e "$HOME/go" ]; do sleep 0.05; done; echo " and more" >>"$1"' sh`;

withTerminal("[G5] a program to edit with", () => {
  it("has the terminal for itself: an answer waits, and is shown after it", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, env: { EDITOR: SLOW_EDITOR } });
    await terminal.enter("Hello?");
    const call = await model.next();
    await terminal.type("half");
    await terminal.until("> half");
    // Two at once, as a keyboard repeats it.
    await terminal.press("C-g", "C-g");
    await terminal.until("editing /");
    call.say("Said in the middle of it.\n\nAnd on.");
    call.end();
    await vi.waitFor(async () => expect((await readLog(terminal.folder)).includes("And on.")).toBe(true), WAIT_MS_MAX);
    expect(await terminal.screen()).not.toContain("Said in the middle");
    expect((await terminal.screen()).match(/editing/g)).toHaveLength(1);
    await writeFile(join(terminal.folder, "../go"), "");
    await terminal.until("Said in the middle of it.");
    await terminal.until("> half");
    await terminal.until("and more");
  });

  it("leaves no file behind when all of it is ended", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model, env: { EDITOR: SLOW_EDITOR, TMPDIR: "/tmp" } });
    await terminal.type("a secret");
    await terminal.until("> a secret");
    await terminal.press("C-g");
    const [, path = ""] = /editing (\S+)/.exec(await terminal.until(/editing \S+\.md/)) ?? [];
    expect(await readFile(path, "utf8")).toBe("a secret\n");
    await terminal.signal("SIGTERM");
    expect(await terminal.exit()).toBe(143);
    await expect(readFile(path)).rejects.toThrow("ENOENT");
    expect(await terminal.leftovers()).toEqual([]);
  });

  it("that leaves a pipe or too much takes nothing away of the line", async () => {
    const model = await openControlledModel();
    const editor = `sh -c 'if [ -e "$HOME/twice" ]; then head -c 9000000 /dev/zero | tr "\\0" a >"$1"; else touch "$HOME/twice"; rm "$1"; mkfifo "$1"; fi' sh`;
    const terminal = await openChat({ model, env: { EDITOR: editor } });
    await terminal.type("kept");
    await terminal.until("> kept");
    await terminal.press("C-g");
    await terminal.until(/left no\s+plain\s+file/);
    await terminal.until("> kept");
    await terminal.press("C-g");
    await terminal.until(/left\s+9.0\s+MB/);
    await terminal.press("Enter");
    expect((await model.next()).newest).toBe("kept");
  });
});

withTerminal("[G5] keys", () => {
  it("are heard after Ctrl-Z where nobody could let a stopped command go on", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.press("C-z");
    // For a moment nobody listens.
    await vi.waitFor(
      async () => {
        await terminal.press("C-u");
        await terminal.type("still");
        expect(await terminal.screen()).toContain("> still");
      },
      { timeout: WAIT_MS_MAX, interval: 200 },
    );
    await terminal.until(/> still$/m);
    await terminal.enter(" there");
    expect((await model.next()).newest).toBe("still there");
  });

  it("are heard after a paste whose end never came", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.tmux("send-keys", "-l", "\u001b[200~lost");
    await vi.waitFor(
      async () => {
        await terminal.press("C-c");
        expect(await terminal.screen()).toMatch(/\[exit \d+\]/);
      },
      { timeout: 10_000, interval: 1_500 },
    );
    expect(await terminal.leftovers()).toEqual([]);
  });

  it("are given back when a second signal ends what did not end by itself", async () => {
    const model = await openControlledModel();
    const terminal = await openChat({ model });
    await terminal.enter("Hello?");
    const call = await model.next();
    call.say("Well\n\n");
    await terminal.until("Well");
    const pid = await readFile(join(terminal.folder, "../pid"), "utf8");
    for (const name of ["SIGTERM", "SIGINT"] as const) process.kill(Number(pid), name);
    await terminal.exit();
    expect(await terminal.leftovers()).toEqual([]);
  });
});

async function readLog(folder: string): Promise<string> {
  const state = join(folder, "..");
  const names = await readdir(state, { recursive: true, withFileTypes: true });
  const texts = names.filter((one) => one.isFile()).map((one) => readFile(join(one.parentPath, one.name), "latin1"));
  return (await Promise.all(texts)).join("\n");
}
