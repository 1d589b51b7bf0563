import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { resolveInProject } from "./project-path.ts";

let base: string;
let root: string;

beforeEach(async () => {
  base = await realpath(await mkdtemp(join(tmpdir(), "rkat-path-")));
  root = join(base, "project");
  await mkdir(join(root, "src"), { recursive: true });
  await mkdir(join(base, "outside"));
  await mkdir(join(base, "project-twin"));
  await writeFile(join(root, "src/a.ts"), "");
});
afterEach(() => rm(base, { recursive: true }));

describe("resolveInProject", () => {
  it("finds what exists and what does not exist yet", async () => {
    expect(await resolveInProject(root, "src/a.ts")).toBe(join(root, "src/a.ts"));
    expect(await resolveInProject(root, "./src/../new/deep/b.ts")).toBe(join(root, "new/deep/b.ts"));
    expect(await resolveInProject(root, "src/")).toBe(join(root, "src"));
    expect(await resolveInProject(root, ".")).toBe(root);
    expect(await resolveInProject(root, "..hidden/c")).toBe(join(root, "..hidden/c"));
  });

  it("[H1] refuses paths that leave the project by name", async () => {
    for (const path of ["..", "../outside/x", "src/../../outside", "../project-twin/x"]) {
      await expect(resolveInProject(root, path)).rejects.toThrow(`${path} lies outside the project`);
    }
    for (const path of ["/etc/passwd", join(root, "src"), "C:\\windows", "\\\\host\\share"]) {
      await expect(resolveInProject(root, path)).rejects.toThrow("is absolute");
    }
    for (const path of ["", "  ", "a\0b", "x/".repeat(3_000)]) {
      await expect(resolveInProject(root, path)).rejects.toThrow("is not a path");
    }
  });

  it("[H1] refuses paths that leave the project through a symbolic link", async () => {
    await symlink(join(base, "outside"), join(root, "out"));
    await symlink("../outside/secret", join(root, "dangling"));
    await symlink(join(base, "outside/not-yet"), join(root, "dangling-folder"));
    await symlink("loop", join(root, "loop"));
    await expect(resolveInProject(root, "out/x")).rejects.toThrow("out/x lies outside the project");
    await expect(resolveInProject(root, "out/new/deep")).rejects.toThrow("lies outside the project");
    await expect(resolveInProject(root, "dangling")).rejects.toThrow("broken symbolic link");
    await expect(resolveInProject(root, "dangling-folder/x")).rejects.toThrow("broken symbolic link");
    await expect(resolveInProject(root, "loop/x")).rejects.toThrow();
  });

  it("follows a symbolic link that stays inside, also where the root is one", async () => {
    await symlink("src", join(root, "alias"));
    await symlink(root, join(base, "entrance"));
    expect(await resolveInProject(join(base, "entrance"), "alias/a.ts")).toBe(join(root, "src/a.ts"));
    expect(await resolveInProject(root, "alias/new.ts")).toBe(join(root, "src/new.ts"));
  });
});
