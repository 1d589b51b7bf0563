import { existsSync } from "node:fs";
import { join } from "node:path";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";
import { created, idOf, said } from "../../../../test/support/entries.ts";

describe("rkat store copy", () => {
  const cli = useCommandLine();

  async function keep(folder: string, texts: readonly string[]): Promise<void> {
    const store = await openEmbeddedStore(join(cli.cwd, folder));
    for (const [number, text] of texts.entries())
      await store.log.append(idOf(number), 0, toNewEntries([created, said(text)]));
    await store.close();
  }

  it("[F11] copies, says what it did, and says again that everything is there", async () => {
    await keep("from", ["one", "two"]);
    const [from, to] = [join(cli.cwd, "from"), join(cli.cwd, "to")];
    const dry = await cli.run(["store", "copy", from, to, "--dry-run"]);
    expect(dry).toMatchObject({ code: 0, stderr: "" });
    expect(dry.stdout).toBe("2 sessions: 2 copied (4 entries)\nNothing was written: this is what a copy would do.\n");
    expect(existsSync(to)).toBe(false);
    const copied = await cli.run(["store", "copy", from, to]);
    expect(copied).toMatchObject({ code: 0, stderr: "" });
    expect(copied.stdout).toMatch(/^2 sessions: 2 copied \(4 entries\)\nEverything of FROM is at TO/);
    const again = await cli.run(["store", "copy", from, to, "--json"]);
    expect(again.code).toBe(0);
    expect(JSON.parse(again.stdout)).toEqual({
      ok: true,
      dry_run: false,
      sessions: { total: 2, copied: 0, continued: 0, equal: 2, entries: 0 },
      agents: { total: 0, copied: 0, continued: 0, equal: 0, entries: 0 },
      schedules: { total: 0, copied: 0, continued: 0, equal: 0, entries: 0 },
      blobs: { total: 0, copied: 0, equal: 0 },
      configuration: "none",
      problems: [],
      behind: [],
    });
  });

  it("[F11] names what it leaves alone, and ends with 1", async () => {
    await keep("from", ["one"]);
    await keep("to", ["another"]);
    const { code, stdout, stderr } = await cli.run(["store", "copy", join(cli.cwd, "from"), join(cli.cwd, "to")]);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^! session \S+ has another past at .*: the entry at seq \d differs; nothing of it was changed\n$/,
    );
    expect(stdout).toMatch(/1 left as they are\nSomething of FROM is not at TO; it is named above.\n$/);
  });

  it("[F11] fills a bar on a terminal, and clears it", async () => {
    await keep("from", ["one"]);
    const places = [join(cli.cwd, "from"), join(cli.cwd, "to")];
    const { stderr } = await cli.run(["store", "copy", ...places], { isTerminal: true, env: { TERM: "xterm" } });
    expect(stderr).toContain("░".repeat(24));
    expect(stderr).toContain("0 of 1 sessions…");
    expect(stderr.endsWith("\r\u001b[K")).toBe(true);
  });

  it("[F11] refuses in a sentence what it cannot do, and repeats no password", async () => {
    await keep("from", ["one"]);
    const from = join(cli.cwd, "from");
    const refused: readonly (readonly [readonly string[], string])[] = [
      [[from, from], "are the same place"],
      [[from, "other", "--realm", "team"], "--realm names a realm of a database, and both places are folders"],
      [[from, "other", "--to-realm", "team"], "--to-realm names a realm of a database, and TO is a folder"],
      [[from, "postgres://me:hush@db/x", "--realm", "../x"], "cannot name a realm"],
      [[from, "postgres://me:hush@db:port/x"], "the address of the database is no URL"],
      [[from, "mysql://me:hush@db/x"], "a store at mysql:// is not known"],
      [[join(cli.cwd, "nowhere"), "other"], "nothing is kept in"],
      [[from], "missing required argument"],
    ];
    for (const [words, sentence] of refused) {
      const { code, stdout, stderr } = await cli.run(["store", "copy", ...words]);
      expect({ words, code, stderr }).toEqual({ words, code: 2, stderr: expect.stringContaining(sentence) });
      expect(stdout + stderr).not.toContain("hush");
    }
  });
});
