import { existsSync, mkdirSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";

describe("rkat backup and rkat restore", () => {
  const cli = useCommandLine();
  const FLAGS = ["--state-root", "state", "--realm", "main"];
  const run = (...words: readonly string[]) => cli.run([...words, ...FLAGS]);
  const say = (text: string) => run("run", text, "--model", "offline");

  it("[K2] back up, check, list and bring back what was said", async () => {
    await say("the heron stands in the reeds");
    expect(await run("backup", "list")).toMatchObject({
      code: 0,
      stdout: "No back-up was made of this realm; rkat backup DIR makes one.\n",
    });
    const made = await run("backup", "copies");
    expect(made).toMatchObject({ code: 0, stderr: "" });
    expect(made.stdout).toMatch(
      /^3 files, .*: 3 copied \(.*\)\nEverything of the realm is in .*copies, as of 20\d\d-.*Z\.\n$/,
    );
    expect((await run("backup", "copies")).stdout).toMatch(/^3 files, .*: nothing was new\n/);
    const checked = await run("backup", "verify", "copies");
    expect(checked).toMatchObject({ code: 0, stderr: "" });
    expect(checked.stdout).toMatch(/^✓ 3 files, \d records of 1 session, .*: whole, as of 20/);
    expect((await run("backup", "list")).stdout).toBe(`just now  there  ${join(cli.cwd, "copies")}\n`);
    const back = await cli.run(["restore", "copies", "--state-root", "state", "--realm", "again"]);
    expect(back).toMatchObject({ code: 0, stderr: "" });
    expect(back.stdout).toContain(`is in ${join(cli.cwd, "state", "again")}, and was checked.`);
    const { stdout } = await cli.run(["session", "list", "--json", "--state-root", "state", "--realm", "again"]);
    expect(stdout).toContain("the heron stands in the reeds");
  });

  it("[K2] speak JSON, also of what is wrong", async () => {
    await say("a line");
    const made = JSON.parse((await run("backup", "copies.tar", "--json")).stdout);
    expect(made).toMatchObject({ ok: true, place: join(cli.cwd, "copies.tar"), files: 3, dropped: 0, problems: [] });
    const list = JSON.parse((await run("backup", "list", "--json")).stdout);
    expect(list).toEqual({ backups: [{ place: made.place, at_ms: made.at_ms, state: "there" }] });
    const checked = JSON.parse((await run("backup", "verify", "copies.tar", "--json")).stdout);
    expect(checked).toMatchObject({ ok: true, sessions: 1, problems: [], at_ms: made.at_ms });
    const back = JSON.parse((await run("restore", "copies.tar", "--to", "look", "--json")).stdout);
    expect(back).toMatchObject({
      ok: true,
      to: join(cli.cwd, "look"),
      files: 3,
      verified: { sessions: 1, problems: [] },
    });
    const refused = await run("restore", "copies.tar", "--to", "look", "--json");
    expect(refused.code).toBe(2);
    expect(JSON.parse(refused.stdout)).toMatchObject({ error: { message: expect.stringContaining("is not empty") } });
  });

  it("[K2] end with 31 for a back-up that is damaged, and say which file", async () => {
    await say("a line");
    await run("backup", "copies");
    truncateSync(join(cli.cwd, "copies/files/1/log/00000001.log"), 10);
    const checked = await run("backup", "verify", "copies");
    expect(checked.code).toBe(31);
    expect(checked.stderr).toMatch(/^! files\/1\/log\/00000001.log has 10 of \d+ bytes; delete it and back up again\n/);
    const back = await run("restore", "copies", "--to", "look");
    expect(back.code).toBe(31);
    expect(back.stderr).toContain("rkat backup verify says more");
    expect(existsSync(join(cli.cwd, "look"))).toBe(false);
  });

  it("[K2] fill a bar on a terminal, and clear it", async () => {
    await say("a line");
    const { stderr } = await cli.run(["backup", "copies", ...FLAGS], { isTerminal: true, env: { TERM: "xterm" } });
    expect(stderr).toContain("kB…");
    expect(stderr.endsWith("\r\u001b[K")).toBe(true);
  });

  it("[K2] [H1] refuse a name that no folder can have", async () => {
    await say("a line");
    expect(await run("backup", "a".repeat(300))).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^Error: .*aaa…: its name is too long; name another place\n$/),
    });
  });

  it("[K2] [H1] refuse, with 2, every place that nothing can be at", async () => {
    await say("a line");
    await run("backup", "good");
    writeFileSync(join(cli.cwd, "file"), "years of work");
    symlinkSync(join(cli.cwd, "loop"), join(cli.cwd, "loop"));
    const places: readonly (readonly [string, RegExp])[] = [
      ["a".repeat(5_000), /: its name is too long; name another place\n$/],
      ["b".repeat(300), /: its name is too long; name another place\n$/],
      ["file/below", /: a part of its path is a file, not a folder; name another place\n$/],
      ["loop/below", /: its links lead in a circle; name another place\n$/],
      ["nul\0", /: a name cannot hold a NUL byte; name another place\n$/],
    ];
    const lines = (place: string): readonly (readonly string[])[] => [
      ["backup", place],
      ["backup", `${place}.tar`],
      ["backup", "verify", place],
      ["restore", place, "--to", "new"],
      ["restore", "good", "--to", place],
      ["store", "copy", join(cli.cwd, place), join(cli.cwd, "new")],
      ["store", "copy", join(cli.cwd, "state", "main"), join(cli.cwd, place)],
    ];
    for (const [place, sentence] of places) {
      for (const words of lines(place)) {
        const { code, stderr } = await (words[0] === "store" ? cli.run(words) : run(...words));
        expect({ words, code, stderr }).toEqual({ words, code: 2, stderr: expect.stringMatching(sentence) });
        expect(stderr.length).toBeLessThan(400);
      }
      // A state folder below a file is told by the commands that read it.
      if (place.startsWith("file")) continue;
      for (const words of [
        ["backup", "list"],
        ["token", "list"],
        ["session", "list"],
      ]) {
        const { code, stderr } = await cli.run([...words, "--state-root", place]);
        expect({ words, code, stderr }).toEqual({ words, code: 2, stderr: expect.stringMatching(sentence) });
      }
    }
    expect(await run("restore", "good", "--to", "c".repeat(250))).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/: its name is too long; name another place\n$/),
    });
    expect(await run("backup", "file")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("is a file; name a folder, or a file NAME.tar"),
    });
    expect(existsSync(join(cli.cwd, "new"))).toBe(false);
  });

  it("[K2] refuse in a sentence what they cannot do", async () => {
    await say("a line");
    mkdirSync(join(cli.cwd, "full"));
    writeFileSync(join(cli.cwd, "full/thesis.txt"), "years of work");
    const refused: readonly (readonly [readonly string[], string])[] = [
      [["backup", "lst"], "did you mean rkat backup list? For a folder of this name write ./lst"],
      [["backup", "full"], "holds other things (thesis.txt)"],
      [["backup", "x.tgz"], "a back-up is not packed"],
      [["backup"], "missing required argument"],
      [["backup", "verify", "nowhere"], "is not there"],
      [["backup", "verify", "full"], "is no finished back-up"],
      [["restore", "nowhere"], "is not there"],
    ];
    for (const [words, sentence] of refused) {
      const { code, stderr } = await run(...words);
      expect({ words, code, stderr }).toEqual({ words, code: 2, stderr: expect.stringContaining(sentence) });
    }
    const empty = await cli.run(["backup", "copies", "--state-root", "state", "--realm", "other"]);
    expect(empty).toMatchObject({ code: 2, stderr: expect.stringContaining("nothing is kept in") });
  });

  it("[K2] name what backs up a realm in PostgreSQL, and repeat no password", async () => {
    const env = { RKAT_STORE_URL: "postgres://me:hush@db/x" };
    const made = await cli.run(["backup", "copies", ...FLAGS], { env });
    expect(made).toMatchObject({ code: 2, stderr: expect.stringContaining("docs/backup.md") });
    const back = await cli.run(["restore", "copies", ...FLAGS], { env });
    expect(back).toMatchObject({ code: 2, stderr: expect.stringContaining("rkat store copy") });
    for (const { stdout, stderr } of [made, back]) expect(stdout + stderr).not.toContain("hush");
  });
});
