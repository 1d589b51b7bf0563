import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, readlink, rm, stat, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { toolContext } from "../../../../test/support/tool-context.ts";
import type { Clock } from "../ports/clock.ts";
import type { Tool } from "../ports/tool.ts";
import { createApplyPatchTool } from "./patch.ts";

const clock: Clock = {
  now: () => 0,
  sleep: async () => undefined,
  random: () => 0,
  newId: () => randomUUID(),
  yieldToEventLoop: () => undefined,
};

let base: string;
let root: string;
let tool: Tool;
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), "rkat-patch-"));
  root = join(base, "project");
  await mkdir(root);
  await writeFile(join(base, "secret"), "secret\n");
  tool = createApplyPatchTool({ root, clock });
});
afterEach(() => rm(base, { recursive: true }));

function applyWith(signal: AbortSignal, lines: readonly string[]) {
  const patch = ["*** Begin Patch", ...lines, "*** End Patch"].join("\n");
  return tool.execute({ patch }, toolContext({ signal }));
}
const apply = async (...lines: string[]) => applyWith(new AbortController().signal, lines);
const put = (path: string, text: string | Uint8Array, mode = 0o644) => writeFile(join(root, path), text, { mode });
const read = (path: string) => readFile(join(root, path), "utf8");
const modeOf = async (path: string) => (await stat(join(root, path))).mode & 0o777;

describe("apply_patch", () => {
  it("adds, updates, moves and deletes, and lists what changed", async () => {
    await put("a.txt", "one\ntwo\n");
    await put("b.sh", "#!/bin/sh\necho b\n", 0o755);
    await put("c.txt", "c\n");
    const output = await apply(
      "*** Add File: new/deep/d.txt",
      "+hello",
      "*** Update File: a.txt",
      " one",
      "-two",
      "+2",
      "*** Update File: b.sh",
      "*** Move to: bin/b.sh",
      "-echo b",
      "+echo B",
      "*** Delete File: c.txt",
    );
    expect(output).toBe("A new/deep/d.txt\nM a.txt\nA bin/b.sh\nD b.sh\nD c.txt");
    expect((await readdir(root, { recursive: true })).sort()).toEqual([
      "a.txt",
      "bin",
      "bin/b.sh",
      "new",
      "new/deep",
      "new/deep/d.txt",
    ]);
    expect(await read("a.txt")).toBe("one\n2\n");
    expect(await read("new/deep/d.txt")).toBe("hello\n");
    expect(await read("bin/b.sh")).toBe("#!/bin/sh\necho B\n");
    expect(await modeOf("bin/b.sh")).toBe(0o755);
  });

  it("keeps mode, CRLF and a missing final newline", async () => {
    await put("w.cmd", "a\r\nb", 0o750);
    await apply("*** Update File: w.cmd", "-a", "+x", "+y");
    expect(await read("w.cmd")).toBe("x\r\ny\r\nb");
    expect(await modeOf("w.cmd")).toBe(0o750);
  });

  it("[A5] leaves everything untouched when one hunk of many fails", async () => {
    await put("a.txt", "one\n");
    await put("b.txt", "two\n");
    const patch = [
      "*** Add File: new.txt",
      "+x",
      "*** Update File: a.txt",
      "-one",
      "+1",
      "*** Update File: b.txt",
      "-two",
      "+2",
      "@@",
      "-missing",
      "*** Delete File: a.txt",
    ];
    await expect(apply(...patch)).rejects.toThrow('b.txt: this line was not found: "missing"');
    expect(await readdir(root)).toEqual(["a.txt", "b.txt"]);
    expect([await read("a.txt"), await read("b.txt")]).toEqual(["one\n", "two\n"]);
  });

  it("[H2] refuses to read, write or delete outside the project", async () => {
    await symlink(base, join(root, "out"));
    await symlink(join(base, "secret"), join(root, "leak"));
    await symlink(join(base, "planted"), join(root, "dangling"));
    await put("a.txt", "a\n");
    const attacks = [
      ["*** Add File: ../planted", "+x"],
      ["*** Add File: out/planted", "+x"],
      ["*** Add File: out/new/planted", "+x"],
      ["*** Add File: dangling", "+x"],
      ["*** Add File: /tmp/rkat-planted", "+x"],
      ["*** Update File: leak", "-secret", "+x"],
      ["*** Update File: out/secret", "-secret", "+x"],
      ["*** Update File: a.txt", "*** Move to: ../planted", "-a", "+x"],
      ["*** Update File: a.txt", "*** Move to: out/planted", "-a", "+x"],
      ["*** Delete File: ../secret"],
      ["*** Delete File: out/secret"],
      ["*** Delete File: leak"],
    ];
    for (const attack of attacks) await expect(apply(...attack), attack.join("|")).rejects.toThrow();
    expect((await readdir(base)).sort()).toEqual(["project", "secret"]);
    expect(await readFile(join(base, "secret"), "utf8")).toBe("secret\n");
    expect(await read("a.txt")).toBe("a\n");
  });

  it("edits the file behind a symbolic link inside the project, and keeps the link", async () => {
    await put("AGENTS.md", "a\n");
    await symlink("AGENTS.md", join(root, "CLAUDE.md"));
    expect(await apply("*** Update File: CLAUDE.md", "-a", "+b")).toBe("M CLAUDE.md");
    expect(await readlink(join(root, "CLAUDE.md"))).toBe("AGENTS.md");
    expect(await read("AGENTS.md")).toBe("b\n");
    await expect(apply("*** Delete File: CLAUDE.md")).rejects.toThrow("CLAUDE.md is a symbolic link");
    const both = ["*** Update File: CLAUDE.md", "-b", "+c", "*** Update File: ./AGENTS.md", "-b", "+d"];
    await expect(apply(...both)).rejects.toThrow("./AGENTS.md appears twice in the patch");
    expect(await read("AGENTS.md")).toBe("b\n");
  });

  it("[A5] refuses what it cannot do with a sentence that names the file", async () => {
    await put("a.txt", "a\n");
    await put("binary", Buffer.from([0xff, 0xfe, 0x0a]));
    await mkdir(join(root, "folder"));
    const socket = createServer().listen(join(root, "socket"));
    await once(socket, "listening");
    await expect(apply("*** Add File: a.txt", "+x")).rejects.toThrow("a.txt exists already");
    await expect(apply("*** Delete File: b.txt")).rejects.toThrow("b.txt does not exist");
    await expect(apply("*** Update File: b.txt", "+x")).rejects.toThrow("b.txt does not exist");
    await expect(apply("*** Update File: folder", "+x")).rejects.toThrow("folder is not a regular file");
    await expect(apply("*** Update File: socket", "+x")).rejects.toThrow("socket is not a regular file");
    await expect(apply("*** Update File: .", "+x")).rejects.toThrow(". is not a regular file");
    await expect(apply("*** Update File: binary", "+x")).rejects.toThrow("binary is not UTF-8 text");
    await expect(apply("*** Update File: a.txt", "*** Move to: folder", "+x")).rejects.toThrow("folder exists already");
    await expect(apply("*** Add File: a.txt/below", "+x")).rejects.toThrow("no file was changed");
    socket.close();
    expect(await read("a.txt")).toBe("a\n");
  });

  it("[H5] refuses a patch or a file beyond its bound", async () => {
    await put("big.txt", Buffer.alloc(10_000_001, "a\n"));
    await expect(apply("*** Update File: big.txt", "+x")).rejects.toThrow("big.txt is larger than 10000000 bytes");
    await expect(apply("*** Add File: x", `+${"y".repeat(1_000_000)}`)).rejects.toThrow(/^patch: /);
  });

  it("loses no change when patches of the same file arrive at once", async () => {
    await put("n.txt", "a\nb\nc\nd\n");
    const letters = ["a", "b", "c", "d"];
    await Promise.all(letters.map((letter) => apply("*** Update File: n.txt", `-${letter}`, `+${letter}${letter}`)));
    expect(await read("n.txt")).toBe("aa\nbb\ncc\ndd\n");
  });

  it("goes on after a patch that failed, and changes nothing once interrupted", async () => {
    await put("a.txt", "a\n");
    await expect(apply("*** Delete File: nope")).rejects.toThrow();
    await expect(applyWith(AbortSignal.abort(), ["*** Delete File: a.txt"])).rejects.toThrow("interrupted");
    expect(await apply("*** Update File: a.txt", "-a", "+b")).toBe("M a.txt");
  });
});
