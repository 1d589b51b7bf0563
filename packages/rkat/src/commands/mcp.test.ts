import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";
import { program } from "../../../../test/support/mcp-servers.ts";

const line = useCommandLine();
const env = { PATH: process.env.PATH, NO_COLOR: "1" };
/** Apart from the user's own file, which lies in the home folder. */
const run = (...args: string[]) => line.run(["mcp", ...args], { env, home: join(line.cwd, "home") });
const file = () => join(line.cwd, ".rkat/mcp.toml");
const write = (toml: string): void => {
  mkdirSync(join(line.cwd, ".rkat"), { recursive: true });
  writeFileSync(file(), toml);
};

describe("rkat mcp", () => {
  it("[G9] [H2] several at once undo nothing of each other, and the file stays as closed as it was", async () => {
    write('[[servers]]\nname = "first"\ncommand = "x"\n');
    chmodSync(file(), 0o600);
    const names = ["a", "b", "c", "d", "e", "f"];
    const added = await Promise.all(names.map((name) => run("add", name, "--", "x")));
    expect(added.map(({ code }) => code)).toEqual(names.map(() => 0));
    const servers = [...readFileSync(file(), "utf8").matchAll(/^name = "(\w+)"/gm)].map(([, name]) => name);
    expect(servers.toSorted()).toEqual([...names, "first"]);
    expect(statSync(file()).mode & 0o777).toBe(0o600);
    expect(readdirSync(join(line.cwd, ".rkat"))).toEqual(["mcp.toml"]);
  });

  it("[G9] [H2] add writes through no link that lies beside the file", async () => {
    write("");
    const notes = join(line.cwd, "notes");
    writeFileSync(notes, "mine");
    symlinkSync(notes, `${file()}.new`);
    expect(await run("add", "t", "--", "x")).toMatchObject({ code: 0 });
    expect(readFileSync(notes, "utf8")).toBe("mine");
  });

  it("[G9] add writes what list then tries", async () => {
    const { command, args = [] } = program(join(line.cwd, "notes"));
    const added = await run("add", "t", "--env", "A=b=c", "--", command, ...args);
    expect(added).toEqual({ code: 0, stderr: "", stdout: "Added t to .rkat/mcp.toml. rkat mcp list tests it.\n" });
    await run("add", "gone", "--", "no-such-program", "-y", "--help", "--url", "x");
    const { code, stdout, stderr } = await run("list");
    expect(code).toBe(1);
    expect(stdout).toMatch(/^✓ t {5}14 tools\n {8}mcp__t__echo\n/);
    expect(stdout).toMatch(/✗ gone {2}its command no-such-program was not found\n$/);
    expect(stderr).toMatch(/^! tool unsound of MCP server t is left out: .*\n$/);
    const { stdout: json } = await run("list", "--json");
    expect(JSON.parse(json)).toMatchObject({
      servers: [
        { name: "t", state: "connected", tools: expect.arrayContaining(["mcp__t__echo"]) },
        { name: "gone", state: "failed", error: "its command no-such-program was not found" },
      ],
    });
    expect(readFileSync(file(), "utf8")).toBe(
      `[[servers]]\nname = "t"\ncommand = ${JSON.stringify(command)}\nargs = [${args.map((arg) => JSON.stringify(arg)).join(", ")}]\nenv = { "A" = "b=c" }\n\n` +
        '[[servers]]\nname = "gone"\ncommand = "no-such-program"\nargs = ["-y", "--help", "--url", "x"]\n',
    );
  });

  it("[G9] add and remove leave the rest of the file as it is", async () => {
    const kept = `# Ours.\n\n# The files.\n[[servers]]\nname = "files" # all\ncommand = "f"\n  [servers.env]\n  A = "1"\n\n\n# Docs.\n[[servers]]\nname = "docs"\nurl = "http://a.test"\n`;
    write(kept);
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what the file is to say.
    await run("add", "third", "--url", "https://b.test/mcp", "--header", "Authorization=Bearer ${T}");
    expect(readFileSync(file(), "utf8")).toBe(
      `${kept}\n[[servers]]\nname = "third"\nurl = "https://b.test/mcp"\nheaders = { "Authorization" = "Bearer \${T}" }\n`,
    );
    expect(await run("remove", "third")).toMatchObject({ code: 0, stdout: "Removed third from .rkat/mcp.toml.\n" });
    expect(readFileSync(file(), "utf8")).toBe(`${kept}`);
    await run("remove", "files");
    expect(readFileSync(file(), "utf8")).toBe(
      '# Ours.\n\n# The files.\n\n\n# Docs.\n[[servers]]\nname = "docs"\nurl = "http://a.test"\n',
    );
    expect(readdirSync(join(line.cwd, ".rkat"))).toEqual(["mcp.toml"]);
  });

  it("[G9] [H1] refuses in a sentence what it cannot do, and changes nothing", async () => {
    const inline = 'servers = [{ name = "a", command = "x" }, { name = "b", command = "y" }]\n';
    write(inline);
    const refused = (pattern: RegExp) => ({ code: 2, stdout: "", stderr: expect.stringMatching(pattern) });
    expect(await run("remove", "a")).toEqual(refused(/\.rkat\/mcp\.toml was not changed: remove a from it by hand/));
    expect(await run("add", "c", "--", "z")).toEqual(refused(/\.rkat\/mcp\.toml was not changed: .*not valid TOML/));
    expect(await run("remove", "z")).toEqual(refused(/has no server z; there are: a, b/));
    expect(await run("add", "c")).toEqual(refused(/give the server's command after --, or its address as --url/));
    expect(await run("add", "c", "--env", "A", "--", "z")).toEqual(refused(/--env: write NAME=VALUE/));
    expect(readFileSync(file(), "utf8")).toBe(inline);
  });

  it("without such a word is the server, whatever its flags", async () => {
    const handed: (readonly string[])[] = [];
    const serve = async (kind: string, args: readonly string[]) => {
      handed.push([kind, ...args]);
      return 0;
    };
    await line.run(["mcp"], { own: { serve } });
    await line.run(["mcp", "--memory-only", "--realm", "list"], { own: { serve } });
    expect(handed).toEqual([["mcp"], ["mcp", "--memory-only", "--realm", "list"]]);
  });

  it("list says how to begin where there is no server", async () => {
    expect(await run("list")).toMatchObject({
      code: 0,
      stdout: "No MCP servers. rkat mcp add NAME -- COMMAND adds one to .rkat/mcp.toml\n",
    });
  });
});
