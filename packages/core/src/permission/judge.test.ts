import { describe, expect, it } from "vitest";
import type { PermissionRules, PermissionVerdict } from "../contract/permission.ts";
import { createPolicy, type JudgedCall, judgeCall, type PermissionLayer } from "./judge.ts";

const shell = (command: string, more: object = {}): JudgedCall => ({
  tool: "shell",
  args: { command, ...more },
  root: "/u/me/project",
});
const patch = (...paths: readonly string[]): JudgedCall => ({
  tool: "apply_patch",
  args: { patch: `*** Begin Patch\n${paths.map((path) => `*** Add File: ${path}\n+x\n`).join("")}*** End Patch` },
  root: "/u/me/project",
});
const user = (rules: PermissionRules): readonly PermissionLayer[] => [{ from: "user", rules }];
const judge = (layers: readonly PermissionLayer[], call: JudgedCall, fallback: PermissionVerdict = "ask") =>
  judgeCall(
    createPolicy(layers, () => fallback),
    call,
  );
const verdict = (rules: PermissionRules, call: JudgedCall) => judge(user(rules), call).verdict;

describe("a pattern of a tool's name", () => {
  it("[I1] speaks of the tools it names, with a star for any signs", () => {
    const rules = { allow: ["datetime", "task_*"], deny: ["task_update"] };
    const call = (tool: string) => verdict(rules, { tool, args: {}, root: "/" });
    expect(["datetime", "task_get", "task_update", "other"].map(call)).toEqual(["allow", "allow", "deny", "ask"]);
    expect(verdict({ allow: ["*"] }, { tool: "anything", args: {}, root: "/" })).toBe("allow");
  });

  it("[I1] speaks of the tools of a server by its name, or by both", () => {
    const rules = { allow: ["mcp(files:read_*)"], ask: ["mcp(files)"], deny: ["mcp(evil)"] };
    const call = (server: string, tool: string): JudgedCall => ({
      tool: `mcp__${server}__${tool}`,
      args: {},
      mcp: { server, tool },
      root: "/",
    });
    expect(verdict(rules, call("files", "read_file"))).toBe("ask");
    expect(verdict({ allow: ["mcp(files:read_*)"] }, call("files", "read_file"))).toBe("allow");
    expect(verdict(rules, call("evil", "read_file"))).toBe("deny");
    expect(verdict({ deny: ["mcp(files)"] }, { tool: "mcp__files__x", args: {}, root: "/" })).toBe("ask");
    expect(verdict({ deny: ["mcp__files__*"] }, call("files", "x"))).toBe("deny");
  });
});

describe("a pattern of a shell command", () => {
  const rules = { allow: ["shell(git status *)", "shell(npm run test)", "shell(ls *)"], deny: ["shell(rm *)"] };

  it.each([
    "git status",
    "git status -s .",
    "git status $HOME '*'",
    'git status "$(ls -la)"',
    "npm run test",
    "git status && ls; ls | ls",
    "git status > /dev/null 2>&1",
    "LANG=C ls",
    "a=1; ls $a",
    'for f in a b; do ls "$f"; done',
    'if [ -n "$a" ]; then ls; else git status; fi',
    "git status && echo done",
    "nice -n 5 timeout 10 git status",
    "env LC_ALL=C git status",
    "bash -c 'git status; ls'",
    "echo a | xargs ls",
    "\\git status",
    "'git' \"status\"",
    "git status # ; rm x",
    "ls <<EOF\nrm x\nEOF",
    "ls <<< 'rm x'",
    "ls ';' '&&' rm",
    "ls \"rm x\" | ls '$(rm x)'",
    "set -euo pipefail; ls",
    "ls\n\nls\n",
    "! ls",
    "time ls",
    "ls *.ts {a,b} ~/x",
    'while read -r a; do ls "$a"; done < f',
  ])("[I1] allows what is made of allowed commands: %s", (line) => {
    expect(judge(user(rules), shell(line))).toMatchObject({ verdict: "allow" });
  });

  it.each([
    "git push",
    "git",
    "git -c a=b status",
    "npm run test -- --x",
    "./git status",
    "/tmp/git status",
    "git status; npm run other",
    "echo only",
    "FOO=bar git status",
    "git status > out",
    "cd sub && git status",
    "alias x=y",
    "ls (",
    "",
    "f() { ls; }; f",
  ])("[I1] leaves to the fallback what no rule covers: %s", (line) => {
    expect(judge(user(rules), shell(line), "ask").verdict).toBe("ask");
    expect(judge(user({ allow: rules.allow }), shell(line), "deny").verdict).toBe("deny");
  });

  it.each(["rm x", "ls; rm x", "/bin/rm x", "RM x", "sudo rm x", "A=b rm x", "env rm", "$(rm x)", "sh -c 'rm x'"])(
    "[I1] denies a line with one denied command, however it is spelled: %s",
    (line) => {
      expect(judge(user(rules), shell(line), "allow")).toMatchObject({
        verdict: "deny",
        why: "rule deny shell(rm *) of the user",
      });
    },
  );

  it.each(["$a x", "eval $a", "ls | sh", "ls `", "x=$((a))", `ls ${"a".repeat(10_001)}`])(
    "[I1] asks about what cannot be told where a rule may speak of it: %s",
    (line) => {
      expect(judge(user({ allow: ["shell"], deny: ["shell(rm *)"] }), shell(line), "allow")).toMatchObject({
        verdict: "ask",
        always: undefined,
      });
      expect(verdict({ allow: ["shell"] }, shell(line))).toBe("allow");
      expect(verdict({ allow: ["*"] }, shell(line))).toBe("allow");
    },
  );

  it("[I1] spells words with quotes, and stars that are stars", () => {
    expect(verdict({ allow: ["shell(git commit -m 'a b')"] }, shell('git commit -m "a b"'))).toBe("allow");
    expect(verdict({ allow: ["shell(ls \\*)"] }, shell("ls '*'"))).toBe("allow");
    expect(verdict({ allow: ["shell(ls \\*)"] }, shell("ls x"))).toBe("ask");
    expect(verdict({ allow: ["shell(ls --color=*)"] }, shell("ls --color=auto"))).toBe("allow");
    expect(verdict({ allow: ["shell(git * main)"] }, shell("git push -f origin main"))).toBe("allow");
    expect(verdict({ deny: ["shell(git push * --force *)"] }, shell("git push origin --force"))).toBe("deny");
  });

  it("[I1] of a wrapper allows what it runs only when it spells that as well", () => {
    expect(verdict({ allow: ["shell(sudo *)"] }, shell("sudo apt update"))).toBe("ask");
    expect(verdict({ allow: ["shell(sudo apt *)"] }, shell("sudo apt update"))).toBe("allow");
    expect(verdict({ allow: ["shell(sudo *)", "shell(apt *)"] }, shell("sudo apt update"))).toBe("allow");
    expect(verdict({ allow: ["shell(apt *)"] }, shell("sudo apt update"))).toBe("ask");
    expect(verdict({ allow: ["shell(bash *)"] }, shell("bash build.sh"))).toBe("ask");
    expect(verdict({ allow: ["shell(bash build.sh *)"] }, shell("bash build.sh --all"))).toBe("allow");
    expect(verdict({ allow: ["shell(PATH=* git *)"] }, shell("PATH=. git status"))).toBe("allow");
  });

  it("[I1] knows nothing of shells it does not read", () => {
    const policy = createPolicy(user(rules), () => "ask", "/usr/bin/fish");
    expect(judgeCall(policy, shell("git status"))).toMatchObject({ verdict: "ask", always: undefined });
  });
});

describe("a pattern of a path", () => {
  it.each([
    ["src/**", "src/a/b.ts", "allow"],
    ["src/**", "./src//a.ts", "allow"],
    ["src/**", "src/../secret", "ask"],
    ["src/**", "other/src/a", "ask"],
    ["src/*", "src/a/b.ts", "ask"],
    ["src/*.ts", "src/a.ts", "allow"],
    ["src/", "src/a/b", "allow"],
    ["**/*.md", "docs/x/y.md", "allow"],
    ["**/*.md", "readme.md", "allow"],
    ["src/**", "../project/src/a", "allow"],
    ["src/**", "/u/me/project/src/a", "allow"],
    ["src/**", "/u/me/other/src/a", "ask"],
    ["/u/me/project/src/**", "src/a", "allow"],
    ["/tmp/**", "/tmp/x", "allow"],
    ["/tmp/**", "../../../tmp/x", "allow"],
  ])("[I1] %s and %s: %s", (pattern, path, wanted) => {
    expect(verdict({ allow: [`apply_patch(${pattern})`] }, patch(path))).toBe(wanted);
  });

  it("[I1] must hold for every file of a patch, and a rule denies it for one", () => {
    expect(verdict({ allow: ["apply_patch(src/**)"] }, patch("src/a", "src/b"))).toBe("allow");
    expect(verdict({ allow: ["apply_patch(src/**)"] }, patch("src/a", "b"))).toBe("ask");
    expect(verdict({ allow: ["apply_patch"], deny: ["apply_patch(.env)"] }, patch("a", ".ENV"))).toBe("deny");
  });

  it("[I1] sees every file that a patch names, moves included, and asks about what it cannot read", () => {
    const text = "*** Begin Patch\r\n*** Update File: a\r\n*** Move to: .env\r\n@@\r\n-x\r\n+y\r\n*** End Patch";
    const call = (given: unknown): JudgedCall => ({ tool: "apply_patch", args: { patch: given }, root: "/p" });
    expect(verdict({ allow: ["apply_patch"], deny: ["apply_patch(.env)"] }, call(text))).toBe("deny");
    expect(verdict({ allow: ["apply_patch"], deny: ["apply_patch(.env)"] }, call("nonsense"))).toBe("ask");
    expect(
      verdict(
        { allow: ["apply_patch"], deny: ["apply_patch(.env)"] },
        call("*** Begin Patch\n*** Copy File: .env\n*** End Patch"),
      ),
    ).toBe("ask");
    expect(verdict({ allow: ["apply_patch(**)"] }, call(text))).toBe("allow");
  });

  it("[I1] holds for the files that a shell writes, from the folder it starts in", () => {
    const rules = { allow: ["shell(ls *)", "apply_patch(out/**)"], deny: ["apply_patch(**/.env)"] };
    expect(verdict(rules, shell("ls > out/list"))).toBe("allow");
    expect(verdict(rules, shell("ls > list", { working_dir: "out" }))).toBe("allow");
    expect(verdict(rules, shell("ls > out/../list"))).toBe("ask");
    expect(verdict(rules, shell("ls > out/.env"))).toBe("deny");
    expect(verdict(rules, shell("ls > .env", { working_dir: "out" }))).toBe("deny");
    expect(verdict({ allow: ["shell(ls *)", "apply_patch"] }, shell("ls > /etc/passwd"))).toBe("ask");
    expect(verdict({ allow: ["shell"] }, shell("ls > /etc/passwd"))).toBe("allow");
  });

  it("[I1] holds for tools of others by the fields they name files with", () => {
    const write = (args: JudgedCall["args"]): JudgedCall => ({ tool: "write_file", args, root: "/p" });
    const rules = { allow: ["write_file(src/**)"], deny: ["*(**/.env)"] };
    expect(verdict(rules, write({ path: "src/a", text: "x" }))).toBe("allow");
    expect(verdict(rules, write({ path: "src/.env" }))).toBe("deny");
    expect(verdict(rules, write({ file_path: "b" }))).toBe("ask");
    expect(verdict(rules, write({ paths: ["src/a", 7] }))).toBe("ask");
    expect(verdict({ allow: ["write_file"], deny: ["write_file(.env)"] }, write({ where: ".env" }))).toBe("ask");
  });
});

describe("the layers of a policy", () => {
  const FROM = ["server", "user", "project", "session", "answer"] as const;
  const KINDS = ["allow", "ask", "deny"] as const;
  const call = shell("git push origin");
  const pattern = ["shell(git push *)"];

  /** Every way to give each layer one of the three rules or none. */
  const all = FROM.reduce<readonly (readonly PermissionLayer[])[]>(
    (before, from) =>
      before.flatMap((layers) => [layers, ...KINDS.map((kind) => [...layers, { from, rules: { [kind]: pattern } }])]),
    [[]],
  );
  const has = (layers: readonly PermissionLayer[], kind: (typeof KINDS)[number], ...from: readonly string[]) =>
    layers.some((layer) => layer.rules[kind] !== undefined && (from.length === 0 || from.includes(layer.from)));

  it("[I1] deny wins, then ask, then allow; a nearer person's allow satisfies an ask, and nobody's the server's", () => {
    expect(all.length).toBe(4 ** 5);
    for (const layers of all) {
      const isAsked =
        has(layers, "ask", "server", "answer") ||
        (has(layers, "ask", "session") && !has(layers, "allow", "answer")) ||
        (has(layers, "ask", "user", "project") && !has(layers, "allow", "session", "answer"));
      const wanted = has(layers, "deny") ? "deny" : isAsked ? "ask" : has(layers, "allow") ? "allow" : undefined;
      for (const fallback of KINDS) expect(judge(layers, call, fallback).verdict).toBe(wanted ?? fallback);
    }
  });

  it("[I1] their order decides nothing", () => {
    for (const layers of all.filter((_, index) => index % 7 === 0)) {
      expect(judge(layers.toReversed(), call).verdict).toBe(judge(layers, call).verdict);
    }
  });

  it("[I1] one more rule that denies never allows more, and one that allows never denies more", () => {
    const rank = { allow: 0, ask: 1, deny: 2 };
    for (const layers of all) {
      const { verdict: before } = judge(layers, call);
      for (const from of FROM) {
        expect(rank[judge([...layers, { from, rules: { deny: pattern } }], call).verdict]).toBeGreaterThanOrEqual(
          rank[before],
        );
        expect(
          rank[judge([...layers, { from, rules: { ask: pattern } }], call, "allow").verdict],
        ).toBeGreaterThanOrEqual(rank[judge(layers, call, "allow").verdict]);
        expect(rank[judge([...layers, { from, rules: { allow: pattern } }], call).verdict]).toBeLessThanOrEqual(
          rank[before],
        );
      }
    }
  });

  it("[I1] nobody is asked about what a server may deny", () => {
    const rules = { deny: ["shell(rm *)"] };
    expect(judge([{ from: "server", rules }], shell("$a x"), "allow").verdict).toBe("deny");
    expect(judge([{ from: "user", rules }], shell("$a x"), "allow").verdict).toBe("ask");
  });

  it("[I1] say which rule of whom decided", () => {
    const said = (rules: PermissionRules, line: string) => judge([{ from: "project", rules }], shell(line)).why;
    expect(said({ ask: ["shell(rm *)"] }, "rm x")).toBe("rule ask shell(rm *) of the project");
    expect(said({ allow: ["shell(rm *)"] }, "rm x")).toBe("rule allow shell(rm *) of the project");
    expect(said({}, "rm x")).toBe("no rule matches it");
    expect(said({}, "$a")).toBe("cannot determine what it runs: an expansion produces a program's name");
    expect(said({ deny: ["shell(rm *)"] }, "$a")).toBe(
      "rule deny shell(rm *) of the project may speak of it: part of the command is unknown before it runs",
    );
  });

  it("[I1] a pattern that is none is refused by name", () => {
    expect(() => createPolicy(user({ allow: ["shell("] }), () => "ask")).toThrow(
      '"shell(" says nothing in its parentheses',
    );
  });
});

describe("what always would add", () => {
  it.each([
    ["git status -s", ["shell(git status *)"]],
    ["git status && git push origin main", ["shell(git status *)", "shell(git push *)"]],
    ["npm run build -- --x", ["shell(npm run build *)"]],
    ["ls -la", ["shell(ls *)"]],
    ["rm -rf build", ["shell(rm -rf build)"]],
    ["git commit -m 'a (b) *'", ["shell(git commit *)"]],
    ["./deploy 'a (b) *' \\' ''", ["shell(./deploy 'a (b) *' '\\'' '')"]],
    ["timeout 10 make test", ["shell(make test *)"]],
    ["rm $x", undefined],
    ["$x", undefined],
    ["ls > out/list", ["shell(ls *)", "apply_patch(out/**)"]],
    ["echo hi", ["shell(echo *)"]],
    ["FOO=1 ./x", ["shell(FOO=1 ./x)"]],
    ["sh build.sh", undefined],
    ["ls > /etc/passwd", undefined],
  ])("[I1] %s: %j", (line, always) => {
    const asked = judge([], shell(line));
    expect(asked).toMatchObject({ verdict: "ask", always });
    if (asked.always === undefined) return;
    expect(judge([{ from: "answer", rules: { allow: [...asked.always] } }], shell(line)).verdict).toBe("allow");
  });

  it("[I1] is the folder of a file, the tool of a server, or the tool", () => {
    expect(judge([], patch("src/a/b.ts", "README.md")).always).toEqual([
      "apply_patch(src/a/**)",
      "apply_patch(README.md)",
    ]);
    expect(
      judge([], { tool: "mcp__s__t", args: { path: "x" }, mcp: { server: "s", tool: "t" }, root: "/" }).always,
    ).toEqual(["mcp(s:t)"]);
    // A tool of a server is allowed as it is described now, and by no name that another tool could take.
    const fingerprint = "0123456789abcdef".repeat(2);
    const always = (tool: string) =>
      judge([], { tool: "mcp__s__t", args: {}, mcp: { server: "s", tool, fingerprint }, root: "/" }).always;
    expect(always("t")).toEqual([`mcp(s:t#${fingerprint})`]);
    expect(always("t(*)")).toEqual([`mcp(*:*#${fingerprint})`]);
    const under = (pattern: string, mcp: { server: string; tool: string; fingerprint?: string }) =>
      verdict({ allow: [pattern] }, { tool: "mcp__s__t", args: {}, root: "/", mcp });
    expect(under(`mcp(s:t#${fingerprint})`, { server: "s", tool: "t", fingerprint })).toBe("allow");
    expect(under(`mcp(s:t#${fingerprint})`, { server: "s", tool: "t", fingerprint: "f".repeat(32) })).toBe("ask");
    expect(under(`mcp(s:t#${fingerprint})`, { server: "s", tool: "t" })).toBe("ask");
    expect(under("mcp(s:t)", { server: "s", tool: "t", fingerprint })).toBe("allow");
    expect(judge([], { tool: "datetime", args: {}, root: "/" }).always).toEqual(["datetime"]);
  });

  it("[I1] of a session lets an asked call run, unless only an answer does", () => {
    const allowing = (layers: readonly PermissionLayer[], line: string) => {
      const { verdict: found, allowing: rules } = judge(layers, shell(line));
      expect(found).toBe("ask");
      if (rules !== undefined) {
        const session: PermissionLayer = { from: "session", rules: { allow: [...rules] } };
        expect(judge([...layers, session], shell(line)).verdict).toBe("allow");
      }
      return rules;
    };
    const asks = (from: PermissionLayer["from"]) => [{ from, rules: { ask: ["shell(git push *)"] } }];
    expect(allowing(asks("user"), "git -C . push")).toEqual(["shell(git -C . push)"]);
    expect(allowing(asks("project"), "git push; ls")).toEqual(["shell(git push *)", "shell(ls *)"]);
    expect(allowing(asks("project"), "git push $(x)")).toEqual(["shell(git push *)", "shell(x)"]);
    expect(allowing(asks("user"), "git $x")).toEqual(["shell"]);
    expect(allowing([], "ls -la")).toEqual(["shell(ls *)"]);
    expect(allowing(asks("session"), "git push")).toBeUndefined();
    expect(allowing(asks("server"), "git push")).toBeUndefined();
    expect(allowing([{ from: "user", rules: { deny: ["shell(rm *)"] } }], "$x")).toBeUndefined();
  });

  it("[I1] is nothing where no answer would be heard", () => {
    const rules = { ask: ["shell(git *)"] };
    expect(judge([{ from: "server", rules }], shell("git status"))).toMatchObject({
      verdict: "ask",
      always: undefined,
    });
    expect(judge([{ from: "user", rules }], shell("git status"))).toMatchObject({
      verdict: "ask",
      always: ["shell(git status *)"],
    });
  });
});
