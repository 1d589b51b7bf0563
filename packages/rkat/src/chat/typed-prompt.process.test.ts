import { execFileSync } from "node:child_process";
import { mkdirSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Message } from "@rkat/core/contract/message";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { openRuntime } from "@rkat/node/open-runtime";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";
import type { Parts } from "../parts.ts";
import { completePath, readMentions } from "./typed-prompt.ts";

const line = useCommandLine();
const write = (name: string, text: string | Uint8Array): void => writeFileSync(join(line.cwd, name), text);
const read = (prompt: string) => readMentions(prompt, { root: line.cwd, home: line.cwd, isTyped: true });

describe("files that a prompt names", () => {
  it("[G5] are shown to the model after the prompt, by their paths, and told of", async () => {
    mkdirSync(join(line.cwd, "src"));
    write("src/cli.ts", "export {};\n");
    write("notes.md", "The heron stands.");
    const model = createScriptedModel(() => ({ text: "Yes." }));
    const own: Partial<Parts> = { openRuntime: (options) => openRuntime({ ...options, model }) };
    const input = "look at @src/cli.ts, (@notes.md) and @src/cli.ts!";
    const { code, stderr } = await line.run(["chat", "-t", "none"], { own, input });
    expect(code).toBe(0);
    expect(stderr).toContain("\n· attached src/cli.ts (11 bytes)\n· attached notes.md (17 bytes)\n");
    const said: Message | undefined = model.requests[0]?.messages.findLast(({ role }) => role === "user");
    expect(said).toMatchObject({
      content: [
        { type: "text", text: "look at src/cli.ts, (notes.md) and src/cli.ts!" },
        { type: "text", text: '<file name="src/cli.ts">\nexport {};\n\n</file>' },
        { type: "text", text: '<file name="notes.md">\nThe heron stands.\n</file>' },
      ],
    });
    const { stdout } = await line.run(["session", "list", "--json"]);
    expect(JSON.parse(stdout).sessions[0].title).toMatch(/^look at src\/cli\.ts/);
  });

  it("[G5] may have blanks, be images, PDFs, folders, or lie elsewhere", async () => {
    write("my file.txt", "blank");
    write("a.png", Buffer.from([1, 2, 3]));
    write("a.pdf", "%PDF");
    mkdirSync(join(line.cwd, "folder"));
    write("folder/b.ts", "");
    mkdirSync(join(line.cwd, "folder/inner"));
    const elsewhere = join(tmpdir(), "rkat-elsewhere.txt");
    writeFileSync(elsewhere, "far");
    symlinkSync(elsewhere, join(line.cwd, "link.txt"));
    const { text, attached, notes } = await read(
      `@"my file.txt" @a.png @a.pdf @folder/ @${elsewhere} @link.txt @~/a.png`,
    );
    expect(text).toBe(`"my file.txt" a.png a.pdf folder/ ${elsewhere} link.txt ~/a.png`);
    expect(attached).toMatchObject([
      { type: "text", text: '<file name="my file.txt">\nblank\n</file>' },
      { type: "image", media_type: "image/png", data: "AQID" },
      { type: "file", name: "a.pdf", media_type: "application/pdf" },
      { type: "text", text: '<folder name="folder/">\nb.ts\ninner/\n</folder>' },
      { type: "text", text: expect.stringContaining("\nfar\n") },
      { type: "text", text: '<file name="link.txt">\nfar\n</file>' },
    ]);
    expect(notes.slice(3)).toEqual([
      "folder/, a folder of 2 names",
      `${elsewhere} (3 bytes), which lies outside the project`,
      "link.txt (3 bytes), which lies outside the project",
    ]);
  });

  it("[G5] words that name none stay words", async () => {
    const prompts = [
      "ask @alice, ada@heron.org and @bob.",
      "why is @types/node not found? and @angular/core",
      '@app.get("/a/b/c")\n@pytest.fixture\n@media (max-width: 3em)',
      "react @18.2.0, @ and @@ and @- and @, and @... and @)",
      `@${"x".repeat(5_000)}`,
    ];
    for (const prompt of prompts) expect(await read(prompt)).toEqual({ text: prompt, attached: [], notes: [] });
    write("notes.md", "");
    const crowd = `${"@bob ".repeat(2_000)}@notes.md`;
    expect(await read(crowd)).toMatchObject({ text: crowd, attached: [] });
    expect((await read(`@notes.md${"!".repeat(900)}`)).text).toBe(`notes.md${"!".repeat(900)}`);
    expect(await read("\\@notes.md and \\@alice")).toEqual({ text: "@notes.md and @alice", attached: [], notes: [] });
  });

  it("[G5] that look like paths and are not there are refused with the nearest", async () => {
    mkdirSync(join(line.cwd, "src"));
    write("src/client.ts", "");
    write("my file.txt", "");
    await expect(read("see @my_file.txt")).rejects.toThrow('did you mean @"my file.txt"?');
    await expect(read("see @src/clinet.ts.")).rejects.toThrow(
      "there is no file src/clinet.ts; did you mean @src/client.ts? Where none is meant, write \\@",
    );
    await expect(read("see @src/nothing")).rejects.toThrow(
      "there is no file src/nothing; where none is meant, write \\@",
    );
    await expect(read('see @"no such"')).rejects.toThrow("there is no file no such;");
    await expect(read("see @./x")).rejects.toThrow("there is no file ./x;");
    const { code, stderr } = await line.run(["chat"], { env: { RKAT_MODEL: "offline" }, input: "see @gone\u001b.md" });
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.not.stringContaining("\u001b") });
  });

  it("[G5] that never end, are too large, no text, or not ours are refused", async () => {
    execFileSync("sh", ["-c", 'mkfifo "$1"', "sh", join(line.cwd, "pipe.txt")]);
    await expect(read("@pipe.txt")).rejects.toThrow("@pipe.txt is not a regular file; name one");
    await expect(read("@/dev/zero")).rejects.toThrow("@/dev/zero is not a regular file");
    symlinkSync("/dev/zero", join(line.cwd, "zero.png"));
    await expect(read("@zero.png")).rejects.toThrow("@zero.png is not a regular file");
    symlinkSync("loop", join(line.cwd, "loop"));
    expect(await read("@loop")).toMatchObject({ attached: [] });
    write("huge.png", "");
    truncateSync(join(line.cwd, "huge.png"), 2 ** 40);
    await expect(read("@huge.png")).rejects.toThrow("@huge.png has 1.1 TB, and at most 12.6 MB of it can be attached");
    write("long.log", "x".repeat(1_048_577));
    await expect(read("@long.log")).rejects.toThrow("@long.log has 1.0 MB, and at most 1.0 MB of it can be attached");
    write("program", Buffer.from([0xff, 0xfe, 0]));
    await expect(read("@program")).rejects.toThrow("@program is neither text, an image nor a PDF");
    const many = Array.from({ length: 40 }, (_, index) => `f${index}.txt`);
    for (const name of many) write(name, "");
    await expect(read(many.map((name) => `@${name}`).join(" "))).rejects.toThrow("a prompt takes 32 files");
  });

  it("[G5] from a pipe are those of the project alone: what a script passes on names nothing of yours", async () => {
    write("notes.md", "The heron stands.");
    symlinkSync("/etc", join(line.cwd, "etc"));
    const chat = (input: string) => line.run(["chat", "-t", "none"], { env: { RKAT_MODEL: "offline" }, input });
    expect(await chat("see @notes.md")).toMatchObject({ code: 0 });
    for (const path of ["/etc/passwd", "etc/passwd", "../"]) {
      expect(await chat(`see @${path}`)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining(`Error: @${path} lies outside the project, and from a pipe only its files`),
      });
    }
  });

  it("[G5] the names of a folder are bounded, and steer no terminal", async () => {
    mkdirSync(join(line.cwd, "crowd"));
    for (let index = 0; index < 600; index += 1) write(`crowd/f${String(index).padStart(4, "0")}`, "");
    write("crowd/a\u001b[2J\nb", "");
    const { attached } = await read("@crowd");
    const [block] = attached;
    const text = block?.type === "text" ? block.text : "";
    expect(text.split("\n")).toHaveLength(503);
    expect(text).toMatch(/\n… and 100 more\n<\/folder>$/);
    expect(text).not.toContain("\u001b");
  });
});

describe("the paths that Tab offers", () => {
  it("[G5] begin as what was typed, folders with a slash, hidden ones only when asked for", async () => {
    for (const folder of ["src", "node_modules", ".git"]) mkdirSync(join(line.cwd, folder));
    for (const name of ["src/a.ts", "src/b.ts", "src/.hidden", "notes.md", ".env", "with blank.txt"]) write(name, "");
    symlinkSync("src", join(line.cwd, "linked"));
    const complete = (beginning: string) => completePath(beginning, line.cwd, line.cwd);
    expect(await complete("")).toEqual(["linked/", "notes.md", "src/", "with blank.txt"]);
    expect(await complete("n")).toEqual(["notes.md"]);
    expect(await complete("node")).toEqual(["node_modules/"]);
    expect(await complete(".")).toEqual([".env"]);
    expect(await complete(".gi")).toEqual([".git/"]);
    expect(await complete("src/")).toEqual(["src/a.ts", "src/b.ts"]);
    expect(await complete("~/src/b")).toEqual(["~/src/b.ts"]);
    expect(await complete(`${line.cwd}/no`)).toEqual([`${line.cwd}/notes.md`]);
  });

  it("[G5] are none where nothing can be read, and at most 200", async () => {
    for (const beginning of ["none/", "\0", "notes.md/", "../".repeat(300)]) {
      expect(await completePath(`${beginning}x-y-z`, line.cwd)).toEqual([]);
    }
    for (let index = 0; index < 300; index += 1) write(`f${index}`, "");
    expect(await completePath("f", line.cwd)).toHaveLength(200);
  });
});
