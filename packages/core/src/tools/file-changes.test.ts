import { randomUUID } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { commitChanges } from "./patch.ts";

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "rkat-changes-"));
});
afterEach(() => rm(root, { recursive: true }));

const state = (text: string, mode?: number) => ({ bytes: Buffer.from(text), mode });

describe("commitChanges", () => {
  it("[A5] puts everything back when a later change fails", async () => {
    await writeFile(join(root, "script"), "old", { mode: 0o755 });
    await writeFile(join(root, "gone"), "still here", { mode: 0o640 });
    await mkdir(join(root, "folder/full"), { recursive: true });
    const changes = [
      { path: join(root, "script"), before: state("old", 0o755), after: state("new", 0o755) },
      { path: join(root, "gone"), before: state("still here", 0o640), after: undefined },
      { path: join(root, "made/deep/new"), before: undefined, after: state("new") },
      // A folder cannot be replaced by a file, so this rename fails after the others have happened.
      { path: join(root, "folder"), before: undefined, after: state("x") },
    ];

    await expect(commitChanges(changes, randomUUID)).rejects.toThrow(/^no file was changed: /);

    expect((await readdir(root)).sort()).toEqual(["folder", "gone", "script"]);
    expect(await readFile(join(root, "script"), "utf8")).toBe("old");
    expect((await stat(join(root, "script"))).mode & 0o777).toBe(0o755);
    expect(await readFile(join(root, "gone"), "utf8")).toBe("still here");
    expect((await stat(join(root, "gone"))).mode & 0o777).toBe(0o640);
  });

  it("[A5] leaves nothing behind when a change cannot be prepared", async () => {
    await writeFile(join(root, "file"), "");
    const changes = [
      { path: join(root, "made/a"), before: undefined, after: state("x") },
      { path: join(root, "file/below"), before: undefined, after: state("x") },
    ];
    await expect(commitChanges(changes, randomUUID)).rejects.toThrow(/^no file was changed: /);
    expect(await readdir(root)).toEqual(["file"]);
  });
});
