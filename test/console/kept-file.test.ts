import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../support/command-line.ts";
import { OFFLINE } from "../support/compacting-command-line.ts";

const line = useCommandLine();
const run = (...words: string[]) => line.run(words, { env: OFFLINE });
const at = (name: string): string => join(line.cwd, name);

describe("rkat session show --html", () => {
  it("[G8] writes one file for its owner alone, and tells how large it is", async () => {
    await run("run", "The port is 8443.");
    const reported = await run("session", "show", "last", "--html", "kept.html");
    expect(reported).toMatchObject({ code: 0, stdout: "" });
    expect(reported.stderr).toMatch(
      /^Wrote kept\.html: \d+\.\d KB, 2 messages\.\nAnyone who gets the file can read the whole session\.\n$/,
    );
    expect(statSync(at("kept.html")).mode & 0o777).toBe(0o600);
    const { stdout, stderr } = await run("session", "show", "last", "--html", "other.html", "--json");
    expect({ ...JSON.parse(stdout), stderr }).toEqual({
      file: at("other.html"),
      bytes: statSync(at("other.html")).size,
      stderr: "",
    });
  });

  it("[G8] writes a policy that lets nothing in but its own script and style, and no address of anything", async () => {
    await run("run", "The port is 8443.");
    await run("session", "show", "last", "--html", "kept.html");
    const page = readFileSync(at("kept.html"), "utf8");
    const [, policy] = /<meta http-equiv="content-security-policy" content="([^"]+)"/.exec(page) ?? [];
    expect(policy?.replaceAll(/sha256-[\w+/=]{44}/g, "HASH").split("; ")).toEqual([
      "default-src 'none'",
      "script-src 'HASH'",
      "style-src 'HASH'",
      "img-src data:",
      "base-uri 'none'",
      "form-action 'none'",
      "require-trusted-types-for 'script'",
    ]);
    expect(page.match(/<(?:link|script|img|iframe)[^>]+(?:src|href)="(?!data:)[^"]*"/g)).toBeNull();
  });

  it("[G8] overwrites a file only when told to, and nothing that is no file", async () => {
    await run("run", "The port is 8443.");
    writeFileSync(at("mine.txt"), "mine");
    chmodSync(at("mine.txt"), 0o644);
    symlinkSync(at("mine.txt"), at("link.html"));
    mkdirSync(at("folder"));
    const before = readdirSync(line.cwd);
    const write = (...words: string[]) => run("session", "show", "last", "--html", ...words);
    const refusals = [
      [["mine.txt"], "mine.txt is there already; --force overwrites it"],
      [["link.html", "--force"], "link.html is there and is not a regular file; name another"],
      [["folder", "--force"], "folder is there and is not a regular file; name another"],
      [
        ["no/such.html"],
        "no/such.html cannot be written: ENOENT; check that its folder is there and yours, and has room",
      ],
      [["kept.html", "--history"], "option '--html <file>' cannot be used with option '--history'; see --help"],
    ] as const;
    for (const [words, sentence] of refusals) {
      expect(await write(...words)).toEqual({ code: 2, stdout: "", stderr: `Error: ${sentence}\n` });
    }
    const stray = await run("session", "show", "last", "--force");
    expect(stray).toEqual({
      code: 2,
      stdout: "",
      stderr: "Error: --force: it is about the file of --html; name one\n",
    });
    expect(readdirSync(line.cwd)).toEqual(before);
    expect(readFileSync(at("mine.txt"), "utf8")).toBe("mine");
    expect(await write("mine.txt", "--force")).toMatchObject({ code: 0 });
    expect(readFileSync(at("mine.txt"), "utf8")).toMatch(/^<!doctype html>/);
    expect(statSync(at("mine.txt")).mode & 0o777).toBe(0o600);
    expect(readdirSync(line.cwd)).toEqual(before);
  });

  it("[G8] says so for a session that is not there", async () => {
    const { code, stderr } = await run("session", "show", "ffff", "--html", "kept.html");
    expect({ code, stderr }).toEqual({
      code: 10,
      stderr: "Error: no session begins with ffff; rkat session list shows them\n",
    });
    expect(readdirSync(line.cwd)).not.toContain("kept.html");
  });
});
