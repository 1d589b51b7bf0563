import { execFile } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";
import { SCRIPTS, SHELLS } from "./completion.ts";

const line = useCommandLine();
const { run } = line;
const shell = promisify(execFile);

/** What a shell is answered: every line, without what the words mean. */
async function completed(typed: string, { shell = "fish" } = {}): Promise<readonly string[]> {
  const { code, stdout, stderr } = await run(["__complete", shell, "--", ...typed.split(" ")]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return stdout.split("\n").flatMap((each) => (each === "" ? [] : [each.split("\t")[0] ?? ""]));
}

describe("[G5] completion", () => {
  const rows: readonly (readonly [typed: string, words: readonly string[]])[] = [
    ["com", ["compact", "comms", "completion"]],
    ["session un", ["unqueue", "unpin"]],
    ["sessions sho", ["show"]],
    ["help session for", ["fork"]],
    ["completion ", ["bash", "zsh", "fish"]],
    ["run hello --max-to", ["--max-tokens", "--max-tool-calls", "--max-tokens-per-turn"]],
    ["hello -t ", ["safe", "workspace", "full", "none"]],
    ["run --output=j", ["--output=json"]],
    ["run -o ", ["text", "json"]],
    ["run --stdin off --std", []],
    ["run --param a=1 --para", ["--param", "--params-json"]],
    ["run -- --mod", []],
    ["doctor --ver", ["--verify", "--version"]],
    ["session list --lim", ["--limit"]],
    ["serve --tok", ["--token"]],
    ["mcp --memory", ["--memory-only"]],
    ["run --schema ", [":files"]],
    ["--state-root ", [":folders"]],
    ["serve --context-root ", [":folders"]],
    ["-m off", ["offline"]],
    ["run -p anth", ["anthropic"]],
    ["session show ", []],
    ["nothing of the kind", []],
    ["run --no-such-flag=x", []],
    ["-h ser", ["serve"]],
  ];
  it.each(rows)("after `rkat %s` knows the words that may follow", async (typed, words) => {
    expect(await completed(typed)).toEqual(words);
  });

  it("knows every command that help lists, and no hidden one", async () => {
    const { stdout } = await run(["--help"]);
    const names = await completed("");
    expect(names.filter((name) => !stdout.includes(`\n  ${name} `))).toEqual([]);
    expect(names).toContain("capabilities");
    expect(stdout).not.toContain("__complete");
  });

  it("offers a flag once, unless it may be repeated", async () => {
    const flags = await completed("session list --json --label a=b --");
    expect(flags).toEqual([...new Set(flags)]);
    expect(flags).not.toContain("--json");
    expect(flags).toContain("--label");
  });

  it("names the sessions and agents of the folder, and of the one the line says", async () => {
    await run(["run", "hello", "there", "-m", "offline"]);
    await run(["agent", "remember", "ada", "a heron"]);
    const { sessions } = JSON.parse((await run(["session", "list", "--json"])).stdout);
    const id = sessions[0].session_id.slice(0, 13);
    expect(await completed("session show ")).toEqual(["last", id]);
    expect(await completed("resume l")).toEqual(["last"]);
    expect(await completed("--resume ")).toEqual(["last", id]);
    expect(await completed("memory search x --session=la")).toEqual(["--session=last"]);
    expect(await completed("agent status ")).toEqual(["ada"]);
    expect(await completed("chat --agent ")).toEqual(["ada"]);
    expect(await completed("--state-root elsewhere session show ")).toEqual([]);
    const { stdout } = await run(["__complete", "bash", "--", "session", "show", "la"]);
    expect(stdout).toBe("last\tthe newest, just now: hello there\n");
  });

  it("says nothing where nothing can be read", async () => {
    writeFileSync(join(line.cwd, "rkat.toml"), "not toml");
    mkdirSync(join(line.cwd, ".rkat", "realms"), { recursive: true });
    expect(await completed("-m ")).toEqual([]);
    expect(await completed("session show ")).toEqual([]);
    expect(await completed("--realm .. session show ")).toEqual([]);
    expect(await run(["__complete"])).toMatchObject({ code: 0, stderr: "" });
  });

  it("takes apart what bash has broken at the equals sign, and answers with the rest of the word", async () => {
    expect(await completed("run --output = j", { shell: "bash" })).toEqual(["json"]);
    expect(await completed("run --tools = ", { shell: "bash" })).toEqual(["safe", "workspace", "full", "none"]);
  });
});

describe("[G5] rkat completion", () => {
  it("prints a script that says how it is installed", async () => {
    for (const name of SHELLS) {
      const { code, stdout } = await run(["completion", name]);
      expect({ code, stdout }).toEqual({ code: 0, stdout: SCRIPTS[name] });
      expect(stdout).toMatch(new RegExp(`^(?:#compdef rkat\n)?# Completion of rkat for ${name}\\. For every shell`));
      expect(stdout).toContain(` __complete ${name} -- `);
      expect(stdout).toContain(`rkat completion ${name}`);
    }
    expect(await run(["completion", "tcsh"])).toMatchObject({
      code: 2,
      stderr: "Error: argument 'shell': 'tcsh' is invalid; allowed choices are bash, zsh, fish\n",
    });
  });

  it("completes in bash what stands before the cursor", async () => {
    const bin = join(line.cwd, "bin");
    mkdirSync(bin);
    const door = join(import.meta.dirname, "../cli.ts");
    writeFileSync(join(bin, "rkat"), `#!/bin/sh\nexec '${process.execPath}' '${door}' "$@"\n`);
    chmodSync(join(bin, "rkat"), 0o755);
    writeFileSync(join(line.cwd, "person.json"), "{}");
    const script = `${SCRIPTS.bash}
      press() { COMP_WORDS=(rkat "$@"); COMP_CWORD=$#; _rkat rkat "\${!#}" rkat; printf '%s\\n' "\${COMPREPLY[@]}" .; }
      complete -p rkat
      COMP_TYPE=9; press ses; press run --tools = w; press run --schema per; press no such thing
      COMP_TYPE=63 COLUMNS=40; press comp`;
    const env = { PATH: `${bin}:${process.env.PATH}`, HOME: line.cwd };
    const { stdout, stderr } = await shell("bash", ["--norc", "-c", script], { cwd: line.cwd, env });
    expect(stderr).toBe("");
    expect(stdout.split("\n")).toEqual([
      "complete -o nosort -F _rkat rkat",
      ...["session", "."],
      ...["workspace", "."],
      ...["person.json", "."],
      ".",
      ...["compact     (summarise a context, chec)", "completion  (print the completion scri)", "."],
      "",
    ]);
  });

  it("is well formed for zsh, whose grammar bash can read, and for fish, whose blocks all end", async () => {
    // `-n` reads without running; what only zsh knows stands inside of expansions and is told from what runs it.
    await expect(shell("bash", ["-n", "-c", SCRIPTS.zsh])).resolves.toEqual({ stdout: "", stderr: "" });
    const words = SCRIPTS.fish.split("\n").map((each) => each.trim().split(" ")[0] ?? "");
    const count = (...names: readonly string[]) => words.filter((word) => names.includes(word)).length;
    expect(count("function", "for", "switch", "if", "while", "begin")).toBe(count("end"));
    const code = SCRIPTS.fish.replace(/^#.*$/gm, "");
    for (const pair of ["()", "''", '""']) {
      const [open = "", close = ""] = pair;
      expect([pair, code.split(open).length % 2]).toEqual([pair, open === close ? 1 : code.split(close).length % 2]);
    }
    expect(SCRIPTS.fish).toMatch(/\ncomplete -c rkat -f -k -a '\(__rkat_complete\)'\n$/);
    expect(SCRIPTS.zsh).toMatch(/^#compdef rkat\n/);
  });
});
