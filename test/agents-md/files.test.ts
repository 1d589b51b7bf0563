import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { loadConfig } from "@rkat/node/config/load-config";
import { readIfThere } from "@rkat/node/config/realm";
import { openRuntime } from "@rkat/node/open-runtime";
import { beforeEach, describe, expect, it } from "vitest";
import { useCommandLine } from "../support/command-line.ts";

const line = useCommandLine();
const home = () => join(line.cwd, "home");
const project = () => join(line.cwd, "repository", "packages", "here");
beforeEach(() => {
  for (const folder of [home(), project()]) mkdirSync(folder, { recursive: true });
});

function put(path: string, text: string | Uint8Array): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

const places = (more: object = {}) => ({ cwd: project(), home: home(), env: {}, readFile: readIfThere, ...more });
/** What a turn would be given now. */
const read = async (more: object = {}) => (await (await loadConfig(places(more))).agentsMd()).files;
const TRUSTED = { isTrusted: true };

let during = (): void => {};
const model = createScriptedModel(() => {
  during();
  return { text: "Done." };
});
const own = { openRuntime: ((options) => openRuntime({ ...options, model })) as typeof openRuntime };
const run = (args: readonly string[], input?: string) =>
  line.run(args, { cwd: project(), home: home(), env: {}, own, ...(input === undefined ? {} : { input }) });
const notices = () =>
  (model.requests.at(-1)?.messages ?? []).flatMap((message) =>
    message.role === "system_notice"
      ? [[message.agents_md?.key, message.body?.split("\n\n").slice(1).join("\n\n")]]
      : [],
  );

describe("which AGENTS.md is read", () => {
  it("[T2] that of the project's folder, else .rkat/AGENTS.md, else CLAUDE.md; an empty one is none", async () => {
    expect(await read(TRUSTED)).toEqual([]);
    put(join(project(), "CLAUDE.md"), "Third.");
    expect(await read(TRUSTED)).toEqual([{ key: "CLAUDE.md", text: "Third." }]);
    put(join(project(), ".rkat", "AGENTS.md"), "Second.");
    expect(await read(TRUSTED)).toEqual([{ key: ".rkat/AGENTS.md", text: "Second." }]);
    put(join(project(), "AGENTS.md"), " \n");
    expect(await read(TRUSTED)).toEqual([{ key: ".rkat/AGENTS.md", text: "Second." }]);
    put(join(project(), "AGENTS.md"), "First.");
    expect(await read(TRUSTED)).toEqual([{ key: "AGENTS.md", text: "First." }]);
    expect(await read({ ...TRUSTED, agentsMd: "none" })).toEqual([]);
  });

  it("[T2] above the project up to the repository's root and at home only where that is asked for", async () => {
    put(join(home(), ".rkat", "AGENTS.md"), "Home.");
    put(join(line.cwd, "AGENTS.md"), "Outside.");
    put(join(line.cwd, "repository", "CLAUDE.md"), "Root.");
    put(join(project(), "AGENTS.md"), "Here.");
    const here = { key: "AGENTS.md", text: "Here." };
    const atHome = { key: "~/.rkat/AGENTS.md", text: "Home." };
    expect(await read(TRUSTED)).toEqual([here]);
    expect(await read({ ...TRUSTED, agentsMd: "all" })).toEqual([atHome, here]);
    mkdirSync(join(line.cwd, "repository", ".git"));
    expect(await read({ ...TRUSTED, agentsMd: "all" })).toEqual([
      atHome,
      { key: "../../CLAUDE.md", text: "Root." },
      here,
    ]);
    expect(await read({ ...TRUSTED, agentsMd: "all", cwd: home() })).toEqual([{ ...atHome, key: ".rkat/AGENTS.md" }]);
  });

  it("[T2] of 1 MB, the first 32 KiB and a sentence; a letter that is cut is left out", async () => {
    const text = `a${"ü".repeat(500_000)}`;
    put(join(project(), "AGENTS.md"), text);
    const [file] = await read(TRUSTED);
    const sentence = "\n\n[The file has 1000001 bytes; these are the first 32768. Read the file for the rest.]";
    expect(file?.text).toBe(`${text.slice(0, 16_384)}${sentence}`);
    expect(Buffer.byteLength(file?.text ?? "")).toBeLessThan(33_000);
  });

  it.each<[string, RegExp, () => void]>([
    [
      "a link that leaves the folder",
      /it is a link that leads out of its folder/,
      () => {
        put(join(line.cwd, "secret.md"), "Secret.");
        symlinkSync(join(line.cwd, "secret.md"), join(project(), "AGENTS.md"));
      },
    ],
    [
      "a folder behind a link",
      /it is a link that leads out of its folder/,
      () => {
        put(join(line.cwd, "elsewhere", "AGENTS.md"), "Secret.");
        symlinkSync(join(line.cwd, "elsewhere"), join(project(), ".rkat"));
      },
    ],
    ["a folder of the name", /it is not a file/, () => mkdirSync(join(project(), "AGENTS.md"))],
    ["bytes that are no text", /it is not text/, () => put(join(project(), "AGENTS.md"), Uint8Array.of(1, 0xff, 2))],
  ])("[T2] not %s: a sentence names it, and CLAUDE.md does not stand in", async (_what, sentence, make) => {
    make();
    put(join(project(), "CLAUDE.md"), "Instead.");
    const { problems, agentsMd } = await loadConfig(places(TRUSTED));
    expect(problems).toEqual([expect.stringMatching(sentence)]);
    const { files, warnings } = await agentsMd();
    expect(files.filter(({ text }) => text !== undefined)).toEqual([]);
    // It was reported already.
    expect(warnings).toEqual([]);
  });

  it("[T2] a link inside of the folder is followed", async () => {
    put(join(project(), "docs", "rules.md"), "Rules.");
    symlinkSync(join("docs", "rules.md"), join(project(), "AGENTS.md"));
    expect(await read(TRUSTED)).toEqual([{ key: "AGENTS.md", text: "Rules." }]);
  });
});

describe("trust in AGENTS.md", () => {
  it("[T2] [H2] a file that nobody trusted is not read, and one that changes is asked about again", async () => {
    const path = join(project(), "AGENTS.md");
    put(path, "First.");
    const { brought, leftOut, trust, agentsMd } = await loadConfig(places());
    expect(leftOut).toContain(`the instructions of ${path}`);
    expect(await agentsMd()).toEqual({ files: [{ key: "AGENTS.md", text: undefined }], warnings: [] });
    for (const file of brought) trust.remember(file);
    expect(await agentsMd()).toEqual({ files: [{ key: "AGENTS.md", text: "First." }], warnings: [] });
    put(path, "Second.");
    const warnings = [expect.stringContaining(`${path}, which has changed since it was trusted`)];
    expect(await agentsMd()).toEqual({ files: [{ key: "AGENTS.md", text: undefined }], warnings });
    expect((await agentsMd()).warnings).toEqual([]);
    put(path, "First.");
    expect((await agentsMd()).files).toEqual([{ key: "AGENTS.md", text: "First." }]);
  });

  it("[T2] rkat run reads it once rkat trust has, --trust for one command, and --no-agents-md does not", async () => {
    mkdirSync(join(line.cwd, "repository", ".git"));
    put(join(line.cwd, "repository", "AGENTS.md"), "Root.\n");
    put(join(project(), "AGENTS.md"), "Here.\n");
    put(join(home(), ".rkat", "AGENTS.md"), "Home.\n");
    const before = await run(["run", "Hello."]);
    expect(before.stderr).toContain("left out until you trust this folder: the instructions of");
    expect(notices()).toEqual([["~/.rkat/AGENTS.md", "Home.\n"]]);
    await run(["run", "Hello.", "--trust"]);
    const all = [
      ["~/.rkat/AGENTS.md", "Home.\n"],
      ["../../AGENTS.md", "Root.\n"],
      ["AGENTS.md", "Here.\n"],
    ];
    expect(notices()).toEqual(all);
    const status = await run(["trust", "--status"]);
    expect([status.code, status.stdout]).toEqual([
      1,
      expect.stringContaining("gives models its text as instructions, 6 bytes"),
    ]);
    expect((await run(["trust"])).code).toBe(0);
    expect((await run(["run", "Hello."])).stderr).not.toContain("left out");
    expect(notices()).toEqual(all);
    const context = await run(["session", "context", "last"]);
    expect(context.stdout).toMatch(/AGENTS\.md/);
    put(join(project(), "AGENTS.md"), "Changed.\n");
    expect((await run(["resume", "last", "Go on."])).stderr).toContain("which has changed since it was trusted");
    expect(notices()).toEqual(all);
    expect((await run(["trust"])).code).toBe(0);
    await run(["resume", "last", "Go on."]);
    expect(notices()).toEqual([...all, ["AGENTS.md", "Changed.\n"]]);
    await run(["run", "Hello.", "--no-agents-md"]);
    expect(notices()).toEqual([]);
    put(join(project(), "rkat.toml"), "[agents_md]\nenabled = false\n");
    await run(["run", "Hello."]);
    expect(notices()).toEqual([]);
    rmSync(join(project(), "rkat.toml"));
    expect((await run(["trust", "--revoke"])).code).toBe(1);
    await run(["run", "Hello."]);
    expect(notices()).toEqual([["~/.rkat/AGENTS.md", "Home.\n"]]);
  });

  it("[T2] a chat reads it at each turn, and says once that a change is not trusted", async () => {
    put(join(project(), "AGENTS.md"), "Here.\n");
    expect((await run(["trust"])).code).toBe(0);
    during = () => put(join(project(), "AGENTS.md"), "There.\n");
    const { code, stderr } = await run(["chat"], "Hello.\nAgain.\nOnce more.\n/quit\n");
    during = () => {};
    expect(code).toBe(0);
    expect(notices()).toEqual([["AGENTS.md", "Here.\n"]]);
    expect(stderr.match(/changed since it was trusted/g)).toHaveLength(1);
  });
});
