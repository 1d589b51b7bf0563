import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PermissionRules } from "@rkat/core/contract/permission";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { createPolicy, judgeCall } from "@rkat/core/permission/judge";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { readLink } from "@rkat/core/tools/project-path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

let root: string;
let linkedRoot: string;
let outside: string;
beforeAll(() => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "rkat-links-")));
  [root, outside, linkedRoot] = [join(folder, "project"), join(folder, "outside"), join(folder, "link-to-project")];
  for (const name of ["src/deep", "secrets", "vault/inner"]) mkdirSync(join(root, name), { recursive: true });
  mkdirSync(outside);
  writeFileSync(join(root, "secrets/key"), "x");
  symlinkSync("../secrets", join(root, "src/folder"));
  symlinkSync("../secrets/key", join(root, "src/file"));
  symlinkSync("../secrets/not-there-yet", join(root, "src/dangling"));
  symlinkSync("folder", join(root, "src/twice"));
  symlinkSync(outside, join(root, "src/out"));
  symlinkSync("../vault/inner", join(root, "src/up"));
  symlinkSync("loop", join(root, "src/loop"));
  symlinkSync("vault", join(root, "named"));
  symlinkSync("src", join(root, "way"));
  symlinkSync(root, linkedRoot);
});
afterAll(() => rmSync(join(root, ".."), { recursive: true }));

type Call = { readonly tool: string; readonly args: Record<string, string> };
const patch = (path: string): Call => ({
  tool: "apply_patch",
  args: { patch: `*** Begin Patch\n*** Add File: ${path}\n+x\n*** End Patch` },
});
const shell = (command: string, more: Record<string, string> = {}): Call => ({
  tool: "shell",
  args: { command, ...more },
});
const verdict = (rules: PermissionRules, call: Call, from = root) =>
  judgeCall(
    createPolicy([{ from: "user", rules }], () => "ask"),
    { ...call, root: from, readLink },
  ).verdict;

describe("a rule on files", () => {
  const denies = { allow: ["shell", "apply_patch"], deny: ["apply_patch(secrets/**)"] };
  it.each([
    "src/folder/x",
    "src/file",
    "src/dangling",
    "src/twice/a/b",
    "src/deep/../folder/x",
    "way/folder/x",
    "src/loop/x",
  ])("[I1] is not passed by a link: %s", (path) => {
    expect(verdict(denies, patch(path))).not.toBe("allow");
    expect(verdict(denies, shell(`ls > ${path}`))).not.toBe("allow");
    expect(verdict(denies, patch(path), linkedRoot)).not.toBe("allow");
    expect(verdict({ allow: ["apply_patch(src/**)"] }, patch(path))).toBe("ask");
  });

  it("[I1] denies what is surely behind a link, and asks where links lead nowhere", () => {
    for (const path of ["src/folder/x", "src/file", "src/dangling", "src/twice/x"]) {
      expect(verdict(denies, patch(path))).toBe("deny");
    }
    expect(verdict(denies, patch("src/loop/x"))).toBe("ask");
  });

  it("[I1] holds by the folder a link is in as well as by the one it leads to", () => {
    const rules = { allow: ["apply_patch"], deny: ["apply_patch(src/folder/**)"] };
    expect(verdict(rules, patch("src/folder/x"))).toBe("deny");
    expect(verdict(rules, patch("secrets/x"))).toBe("deny");
    expect(verdict({ allow: ["apply_patch"], deny: ["apply_patch(named/**)"] }, patch("vault/inner/x"))).toBe("deny");
    expect(verdict({ allow: ["apply_patch"], deny: ["apply_patch(src/file)"] }, patch("secrets/key"))).toBe("deny");
  });

  it("[I1] asks about `..` behind a link, which shells and tools read differently", () => {
    const rules = { allow: ["shell", "apply_patch"], deny: ["apply_patch(vault/**)"] };
    expect(verdict(rules, shell("ls > src/up/../x"))).toBe("ask");
    expect(verdict({ allow: ["shell(ls *)", "apply_patch(src/**)"] }, shell("ls > src/up/../x"))).toBe("ask");
    expect(verdict(denies, shell("ls > x", { working_dir: "src/folder" }))).toBe("deny");
  });

  it("[I1] allows what really lies where it says, whatever it is called", () => {
    const rules = { allow: ["shell(ls *)", "apply_patch(src/**)"] };
    for (const path of ["src/a", "src/new/deep/a", "way/a"]) {
      expect(verdict(rules, patch(path))).toBe("allow");
      expect(verdict(rules, shell(`ls > ${path}`))).toBe("allow");
      expect(verdict(rules, patch(path), linkedRoot)).toBe("allow");
    }
    expect(verdict({ allow: ["apply_patch"] }, patch("src/out/x"))).toBe("allow");
    expect(verdict({ allow: ["shell(ls *)", "apply_patch"] }, shell("ls > src/out/x"))).toBe("ask");
  });

  it("[I1] takes the two spellings of a letter for one", () => {
    const rules = { allow: ["apply_patch(src/caf\u00e9/**)"], deny: ["apply_patch(src/caf\u00e9/key)"] };
    expect(verdict(rules, patch("src/cafe\u0301/a"))).toBe("allow");
    expect(verdict(rules, patch("src/CAFE\u0301/key"))).toBe("deny");
  });

  it("[I1] asks about files that only the command can tell", () => {
    expect(verdict(denies, shell("ls > /proc/self/cwd/secrets/key"))).toBe("ask");
    expect(verdict({ allow: ["shell(ls *)", "apply_patch(/proc/**)"] }, shell("ls > /proc/self/cwd/x"))).toBe("ask");
  });

  it("[I1] [H5] looks at a thousand files of a patch and asks about more", () => {
    const many = (count: number): Call => ({
      tool: "apply_patch",
      args: {
        patch: `*** Begin Patch\n${Array.from({ length: count }, (_, at) => `*** Add File: src/${at}\n+x\n`).join("")}*** End Patch`,
      },
    });
    expect(verdict({ allow: ["apply_patch(src/**)"] }, many(1_000))).toBe("allow");
    expect(verdict({ allow: ["apply_patch(src/**)"] }, many(1_001))).toBe("ask");
  });

  it("[I1] follows links in a session's own project", async () => {
    const model = createScriptedModel(({ messages }) =>
      messages.at(-1)?.role === "user"
        ? { calls: ["src/folder/x", "src/a"].map((path) => ({ name: "apply_patch", args: patch(path).args })) }
        : { text: "Done." },
    );
    const store = createInMemoryStore();
    const runtime = createRuntime({ model, env: {}, store, toolPreset: "workspace", projectRoot: root });
    await runtime.dispatch("createSession", { prompt: "Go.", permissions: { deny: ["apply_patch(secrets/**)"] } });
    const results = JSON.stringify(model.requests.at(-1)?.messages.findLast(({ role }) => role === "tool_results"));
    await runtime.close();
    expect(results).toContain("not run: rule deny apply_patch(secrets/**) of the session");
    expect(results).toContain("A src/a");
  });

  it("[I1] [G5] holds for an edit, however its path is written", async () => {
    writeFileSync(join(root, "src/plain"), "x");
    const paths = ["src/plain\nb/../../secrets/key", "src/plain\r\nb/../../secrets/key", "src/../secrets/key"];
    const model = createScriptedModel(({ messages }) =>
      messages.at(-1)?.role === "user"
        ? { calls: paths.map((path) => ({ name: "edit_file", args: { path, old_text: "x", new_text: "y" } })) }
        : { text: "Done." },
    );
    const store = createInMemoryStore();
    const runtime = createRuntime({ model, env: {}, store, toolPreset: "workspace", projectRoot: root });
    const permissions = { allow: ["apply_patch(src/**)"], deny: ["apply_patch(secrets/**)"] };
    await runtime.dispatch("createSession", { prompt: "Go.", enable_files: true, permissions });
    const results = JSON.stringify(model.requests.at(-1)?.messages.findLast(({ role }) => role === "tool_results"));
    await runtime.close();
    expect(results.split("not run: rule deny apply_patch(secrets/**) of the session")).toHaveLength(4);
    expect(readFileSync(join(root, "secrets/key"), "utf8")).toBe("x");
  });
});
