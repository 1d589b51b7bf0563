import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";
import { CLIENTS } from "./clients.ts";

const line = useCommandLine();
const home = () => join(line.cwd, "my home's");
const project = () => join(line.cwd, "project");
const run = (...args: string[]) => {
  mkdirSync(project(), { recursive: true });
  return line.run(args, { cwd: project(), home: home(), env: { NO_COLOR: "1" } });
};
const write = (path: string, text: string): string => {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
};
const tree = (folder: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [path.slice(folder.length + 1), readFileSync(path, "utf8")]),
  );

const COMMENTED = `// mine
{
\t"theme": "One", // dark
\t"mcpServers": {"other": {"command": "x"},},
\t"hooks": { "SessionEnd": [ {"hooks": []} ] },
}`;

/** Files as users write them, beside those of each client: comments, tabs, CRLF, one line, no final newline. */
const GOLDEN: Record<keyof typeof CLIENTS, Record<string, string>> = {
  "claude-code": {
    ".claude.json": '{"numStartups":3,"projects":{"/a b":{"history":[1,2]}}}',
    ".claude/settings.json": COMMENTED,
  },
  codex: {
    ".codex/config.toml": '# mine\r\nmodel = "gpt"\r\n\r\n[mcp_servers.other]\r\ncommand = "x" # y\r\n',
    ".codex/hooks.json": '{\n    "hooks": {\n        "Stop": []\n    }\n}\n',
  },
  opencode: { ".config/opencode/opencode.jsonc": `// mine\r\n{\r\n  "mcp": {},\r\n  // end\r\n}\r\n` },
  cursor: { ".cursor/mcp.json": '{ "mcpServers": { } }' },
  vscode: { ".config/Code/User/mcp.json": '{\n\t"inputs": [],\n\t"servers": {\n\t\t// none\n\t}\n}\n' },
  zed: { ".config/zed/settings.json": COMMENTED },
};

describe("rkat connect", () => {
  it.each(Object.entries(GOLDEN))(
    "[U3] connects %s, and disconnecting leaves every byte as it was",
    async (client, files) => {
      for (const [path, text] of Object.entries(files)) write(join(home(), path), text);
      mkdirSync(project());
      const before = tree(line.cwd);
      const first = await run("connect", client, "--yes");
      expect(first).toMatchObject({ code: 0, stderr: "" });
      const connected = tree(line.cwd);
      for (const [path, text] of Object.entries(files)) {
        expect(connected[join("my home's", path)]).toMatch(/--memory-only|connect-hook/);
        expect(connected[join("my home's", `${path}.rkat-backup`)]).toBe(text);
      }
      const again = await run("connect", client, "--yes");
      expect(again.stdout).toMatch(/^Nothing to change/);
      expect((await run("disconnect", client, "--yes")).code).toBe(0);
      expect(tree(line.cwd)).toEqual(before);
    },
  );

  it.each(Object.keys(CLIENTS))(
    "[U3] connects %s where it has no files, and disconnecting leaves none",
    async (client) => {
      for (const scope of ["user", "project"]) {
        expect((await run("connect", client, "--yes", "--scope", scope)).code).toBe(0);
        const folder = scope === "user" ? home() : project();
        expect(Object.keys(tree(folder))).not.toEqual([]);
        // What a project shares names no path of this machine.
        expect(JSON.stringify(tree(project()))).not.toContain("/opt/");
        expect((await run("disconnect", client, "--yes", "--scope", scope)).code).toBe(0);
        expect(tree(folder)).toEqual({});
      }
    },
  );

  it.each(Object.entries(GOLDEN))(
    "[U3] takes only its own out of files of %s that were edited since",
    async (client, files) => {
      for (const [path, text] of Object.entries(files)) write(join(home(), path), text);
      await run("connect", client, "--yes");
      for (const path of Object.keys(files)) {
        const file = join(home(), path);
        const text = readFileSync(file, "utf8");
        writeFileSync(file, path.endsWith("toml") ? `${text}\n[mcp_servers.later]\ncommand = "z"\n` : `${text}\n`);
      }
      await run("disconnect", client, "--yes");
      for (const [path, text] of Object.entries(files)) {
        const left = readFileSync(join(home(), path), "utf8");
        expect(left).not.toMatch(/rkat/);
        for (const word of text.match(/\w+/g) ?? [])
          if (!["mcp", "mcpServers"].includes(word)) expect(left).toContain(word);
        if (path.endsWith("toml")) expect(left).toContain("[mcp_servers.later]");
      }
    },
  );

  it("[U3] writes what the client starts, with quotes where a shell reads it", async () => {
    await run("connect", "claude-code", "--yes");
    expect(JSON.parse(readFileSync(join(home(), ".claude.json"), "utf8"))).toEqual({
      mcpServers: {
        rkat: { type: "stdio", command: "/opt/rkat's node", args: ["/opt/rkat/cli.js", "mcp", "--memory-only"] },
      },
    });
    const { hooks } = JSON.parse(readFileSync(join(home(), ".claude/settings.json"), "utf8"));
    expect(Object.keys(hooks)).toEqual(["PreCompact", "SessionStart", "SessionEnd"]);
    expect(hooks.PreCompact[0].hooks[0].command).toBe("'/opt/rkat'\\''s node' /opt/rkat/cli.js connect-hook");
    expect(statSync(join(home(), ".claude.json")).mode & 0o777).toBe(0o600);
  });

  it("[U3] shows the change, and writes nothing that was not agreed to", async () => {
    const file = write(join(home(), ".cursor/mcp.json"), '{\n  "mcpServers": {\n    "a": {}\n  }\n}\n');
    chmodSync(file, 0o640);
    const before = tree(line.cwd);
    const dry = await run("connect", "cursor", "--dry-run");
    expect(dry.stdout).toContain('+     "rkat": {');
    expect(dry.stdout).toContain("~/.cursor/mcp.json  (back-up: ~/.cursor/mcp.json.rkat-backup)");
    expect(dry.stdout).toMatch(/Nothing was written\.\n$/);
    expect(await run("connect", "cursor")).toMatchObject({ code: 2, stderr: expect.stringContaining("add --yes") });
    expect(tree(line.cwd)).toEqual(before);
    const json = await run("connect", "cursor", "--yes", "--json");
    expect(JSON.parse(json.stdout)).toMatchObject({
      client: "cursor",
      written: true,
      files: [{ path: file, change: "edit", backup: `${file}.rkat-backup` }, { change: "create" }],
    });
    expect(statSync(file).mode & 0o777).toBe(0o640);
    expect(statSync(`${file}.rkat-backup`).mode & 0o777).toBe(0o640);
  });

  it.each([
    ["is broken", "{\n  nope", /settings\.json is not valid JSON at line 2; fix it/],
    ["is a list", "[]", /settings\.json is not a JSON object/],
    ["has a list where an object is", '{"hooks": []}', /has another structure than its client writes/],
    [
      "is nested too deeply",
      `{"a":${"[".repeat(200_000)}${"]".repeat(200_000)}}`,
      /settings\.json has another structure/,
    ],
    ["is not text", "\u0000", /not valid JSON at line 1/],
  ])("[U3] refuses a file that %s in one sentence, and writes nothing", async (_, text, sentence) => {
    write(join(home(), ".claude/settings.json"), text);
    const before = tree(line.cwd);
    const { code, stderr } = await run("connect", "claude-code", "--yes");
    expect({ code, lines: stderr.trim().split("\n").length }).toEqual({ code: 2, lines: 1 });
    expect(stderr).toMatch(sentence);
    expect(tree(line.cwd)).toEqual(before);
  });

  it.each([
    ["zed", ".config/zed/settings.json", '{"context_servers": {"rkat": {"command": "mine"}}}'],
    ["codex", ".codex/config.toml", '[mcp_servers.rkat]\ncommand = "mine"\n'],
  ])("[U3] leaves a server rkat of the user's own in %s alone", async (client, path, text) => {
    const file = write(join(home(), path), text);
    expect((await run("connect", client, "--yes")).stderr).toMatch(/has a server rkat that rkat connect did not write/);
    await run("disconnect", client, "--yes");
    expect(readFileSync(file, "utf8")).toBe(text);
  });

  it("[U3] refuses a table of TOML that cannot be added to line by line", async () => {
    const file = write(join(home(), ".codex/config.toml"), 'mcp_servers = { a = { command = "x" } }\n');
    expect((await run("connect", "codex", "--yes")).stderr).toMatch(
      /cannot be changed line by line; change it by hand/,
    );
    expect(readFileSync(file, "utf8")).toBe('mcp_servers = { a = { command = "x" } }\n');
  });

  it("[U3] writes through no link, whether the file is one or a folder of it", async () => {
    const notes = write(join(line.cwd, "notes"), "{}");
    mkdirSync(join(home(), ".cursor"), { recursive: true });
    symlinkSync(notes, join(home(), ".cursor/mcp.json"));
    mkdirSync(join(line.cwd, "elsewhere"));
    mkdirSync(project());
    symlinkSync(join(line.cwd, "elsewhere"), join(project(), ".vscode"));
    for (const args of [["cursor"], ["vscode", "--scope", "project"]]) {
      const { code, stderr } = await run("connect", ...args, "--yes");
      expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining("is a link or lies behind one") });
    }
    expect(readFileSync(notes, "utf8")).toBe("{}");
    expect(readdirSync(join(line.cwd, "elsewhere"))).toEqual([]);
  });

  it("[U3] several at once leave one server, and the first back-up", async () => {
    const text = '{"mcpServers": {}}';
    const file = write(join(home(), ".cursor/mcp.json"), text);
    const ends = await Promise.all(
      ["cursor", "cursor", "cursor", "zed"].map((client) => run("connect", client, "--yes")),
    );
    expect(ends.filter(({ code }) => code === 0).length).toBeGreaterThanOrEqual(2);
    for (const { code, stderr } of ends) if (code !== 0) expect(stderr).toContain("was changed meanwhile");
    expect(readFileSync(`${file}.rkat-backup`, "utf8")).toBe(text);
    expect(existsSync(join(home(), ".rkat/connect.lock"))).toBe(false);
    await run("disconnect", "cursor", "--yes");
    expect(readFileSync(file, "utf8")).toBe(text);
  });

  it("[U3] puts back what was written when a later file cannot be", async () => {
    write(join(home(), ".claude.json"), "{}");
    write(join(home(), ".claude/settings.json"), "{ }");
    mkdirSync(join(home(), ".claude/settings.json.rkat-backup"));
    const { code, stderr } = await run("connect", "claude-code", "--yes");
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining("settings.json.rkat-backup is there"),
    });
    expect(readFileSync(join(home(), ".claude.json"), "utf8")).toBe("{}");
    expect(readFileSync(join(home(), ".claude/settings.json"), "utf8")).toBe("{ }");
    expect(existsSync(join(home(), ".claude/skills"))).toBe(false);
  });

  it("[U3] refuses a client that it does not know, with those it knows", async () => {
    const { code, stderr } = await run("connect", "emacs");
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining("claude-code, codex, opencode, cursor, vscode, zed"),
    });
  });
});

describe("the hook", () => {
  const hook = (input: string, self: readonly string[]) =>
    line.run(["connect-hook"], { cwd: line.cwd, home: home(), env: {}, input, own: { self: async () => self } });

  it("[U3] imports the transcript it is told of, in the project's folder", async () => {
    const seen = join(line.cwd, "seen");
    const program = write(
      join(line.cwd, "program.mjs"),
      `import fs from "node:fs"; fs.writeFileSync(${JSON.stringify(seen)}, JSON.stringify([process.cwd(), ...process.argv.slice(2)]));`,
    );
    const transcript_path = write(join(line.cwd, "a b/'c'.jsonl"), "{}");
    const asked = { transcript_path, cwd: line.cwd, hook_event_name: "PreCompact" };
    expect(await hook(JSON.stringify(asked), [process.execPath, program])).toEqual({ code: 0, stdout: "", stderr: "" });
    expect(JSON.parse(readFileSync(seen, "utf8")).slice(1)).toEqual(["session", "import", transcript_path]);
    const unsaid = JSON.stringify({ ...asked, transcript_path: "/gone.jsonl" });
    expect(await hook(unsaid, ["/no/such/program"])).toEqual({ code: 0, stdout: "", stderr: "" });
  });

  it.each([
    "",
    "{",
    "[]",
    "null",
    '{"transcript_path": "--yes", "cwd": "/"}',
    '{"transcript_path": "/gone"}',
    '{"transcript_path": "/etc/hosts", "cwd": "/"}',
  ])("[U3] never ends with 2, which would stop the client's compaction: %s", async (input) => {
    const failing = [process.execPath, "-e", "console.error('no such file'); process.exit(2)"];
    expect(await hook(input, failing)).toEqual({
      code: 1,
      stdout: "",
      stderr: expect.stringMatching(/^rkat: the session was not imported: .+\n$/),
    });
  });
});
