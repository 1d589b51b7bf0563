import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSystemClock } from "../runtime/system-clock.ts";
import { createFileTools } from "./files.ts";
import { createFileLock } from "./patch.ts";

let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "rkat-files-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const write = (path: string, text: string | Buffer): void => {
  mkdirSync(join(root, path, ".."), { recursive: true });
  writeFileSync(join(root, path), text);
};

async function call(name: string, args: Record<string, unknown>): Promise<string> {
  const tools = createFileTools({ root, clock: createSystemClock(), lock: createFileLock() });
  const context = { sessionId: "s", toolUseId: "t", signal: new AbortController().signal, shellEnv: {}, effectId: "e" };
  const tool = tools.find((one) => one.name === name);
  return String(await tool?.execute(args as never, { ...context, step: async (_, run) => run() }));
}

describe("read_file", () => {
  it("[G5] shows a range of lines with their numbers, and how many there are", async () => {
    write("a.txt", "one\ntwo\nthree\nfour\n");
    expect(await call("read_file", { path: "a.txt" })).toBe("1\tone\n2\ttwo\n3\tthree\n4\tfour");
    expect(await call("read_file", { path: "a.txt", from: 2, lines: 2 })).toBe("2\ttwo\n3\tthree\n[lines 2 to 3 of 4]");
    await expect(call("read_file", { path: "a.txt", from: 9 })).rejects.toThrow("from: a.txt has 4 lines");
  });

  it("[G5] bounds what it shows of a large file and of a long line", async () => {
    write("long.txt", `${"x".repeat(1_000_000)}\nend`);
    const shown = await call("read_file", { path: "long.txt" });
    expect(shown.length).toBeLessThan(3_000);
    expect(shown).toContain("(1000000 characters)");
    write("many.txt", `${"y".repeat(999)}\n`.repeat(1_000));
    const many = await call("read_file", { path: "many.txt", lines: 5_000 });
    expect(many).toMatch(/\[lines 1 to 100 of 1000\]$/);
  });

  it.each([
    ["../outside", "../outside lies outside the project"],
    ["/etc/passwd", "/etc/passwd is absolute; paths are relative to the project"],
    ["link", "link lies outside the project"],
    ["none.txt", "none.txt does not exist"],
    ["binary", "binary is not UTF-8 text"],
    [".rkat/realms/a/log", ".rkat/realms/a/log has stored sessions, which are not files of the project"],
    ["stored/a/log", "stored/a/log has stored sessions, which are not files of the project"],
  ])("[H2] refuses %s", async (path, sentence) => {
    symlinkSync("/etc/hostname", join(root, "link"));
    write("binary", Buffer.from([0xff, 0xfe, 0x00]));
    write(".rkat/realms/a/log", "what was said");
    symlinkSync(".rkat/realms", join(root, "stored"));
    await expect(call("read_file", { path })).rejects.toThrow(sentence);
  });
});

describe("search_files", () => {
  it("[G5] lists hits by path and line, without hidden files, links and build folders", async () => {
    write("src/a.ts", "const heron = 1;\nconst b = heron;\n");
    write("src/b.md", "Heron\n");
    write(".env", "heron=secret\n");
    write("node_modules/x.js", "heron\n");
    write("image.png", Buffer.from([0, 104, 101, 114, 111, 110]));
    symlinkSync("/etc", join(root, "outside"));
    expect(await call("search_files", { text: "heron" })).toBe(
      "src/a.ts:1: const heron = 1;\nsrc/a.ts:2: const b = heron;",
    );
    expect(await call("search_files", { text: "HERON", ignore_case: true, name: ".md" })).toBe("src/b.md:1: Heron");
    expect(await call("search_files", { text: "crane" })).toBe("nothing found in 3 files");
  });

  it("[G5] stops at 200 hits and says so", async () => {
    write("a.txt", "heron\n".repeat(5_000));
    write("b.txt", "heron\n");
    const found = await call("search_files", { text: "heron" });
    expect(found.split("\n")).toHaveLength(201);
    expect(found).toContain("[more is not shown: 200 hits in 1 files; search a smaller folder]");
  });

  it("[H2] reads no stored sessions, wherever a search begins", async () => {
    write(".rkat/realms/a/log/1", "heron, said in confidence\n");
    write(".rkat/notes.md", "heron\n");
    symlinkSync(".rkat", join(root, "kept"));
    expect(await call("search_files", { text: "heron", path: ".rkat" })).toBe(".rkat/notes.md:1: heron");
    expect(await call("search_files", { text: "heron", path: "kept" })).toBe(".rkat/notes.md:1: heron");
  });
});

describe("edit_file", () => {
  it("[G5] replaces a text that is there once, or every one when asked", async () => {
    write("a.txt", "one two two\n");
    expect(await call("edit_file", { path: "a.txt", old_text: "one", new_text: "$& 1" })).toBe("M a.txt");
    await expect(call("edit_file", { path: "a.txt", old_text: "two", new_text: "2" })).rejects.toThrow(
      "old_text is in a.txt 2 times; write more of the text around it, or set all",
    );
    expect(await call("edit_file", { path: "a.txt", old_text: "two", new_text: "2", all: true })).toBe(
      "M a.txt in 2 places",
    );
    expect(readFileSync(join(root, "a.txt"), "utf8")).toBe("$& 1 2 2\n");
    await expect(call("edit_file", { path: "a.txt", old_text: "nine", new_text: "" })).rejects.toThrow(
      "old_text is not in a.txt; read the file and write it exactly as it is there",
    );
  });

  it("[G5] loses no change where two edits of one file run at once", async () => {
    write("a.txt", "a b");
    const tools = createFileTools({ root, clock: createSystemClock(), lock: createFileLock() });
    const edit = tools.find(({ name }) => name === "edit_file");
    const context = { signal: new AbortController().signal } as never; // All it reads.
    await Promise.all([
      edit?.execute({ path: "a.txt", old_text: "a", new_text: "A" }, context),
      edit?.execute({ path: "a.txt", old_text: "b", new_text: "B" }, context),
    ]);
    expect(readFileSync(join(root, "a.txt"), "utf8")).toBe("A B");
  });
});
