import { describe, expect, it } from "vitest";
import { PermissionRules, readPattern } from "./permission.ts";

describe("a pattern of a permission", () => {
  it.each([
    ["*", { kind: "tool", tool: "*" }],
    ["task_*", { kind: "tool", tool: "task_*" }],
    ["shell", { kind: "tool", tool: "shell" }],
    ["shell(*)", { kind: "tool", tool: "shell" }],
    ["shell(git  status *)", { kind: "shell", words: ["git", "status", "*"] }],
    ["shell(git commit -m 'a *')", { kind: "shell", words: ["git", "commit", "-m", "a \\*"] }],
    ["shell(echo (a) '')", { kind: "shell", words: ["echo", "(a)", ""] }],
    ["apply_patch(src/**)", { kind: "path", tool: "apply_patch", path: "src/**" }],
    ["mcp(files)", { kind: "mcp", server: "files", tool: "*" }],
    ["mcp(files:read:all)", { kind: "mcp", server: "files", tool: "read:all" }],
  ])("[I1] %s is read", (text, pattern) => {
    expect(readPattern(text)).toEqual(pattern);
  });

  it.each([
    ["", '"" is no pattern; write the name of a tool, shell(git *), apply_patch(src/**), mcp(server) or *'],
    [
      "git status",
      '"git status" is no pattern; write the name of a tool, shell(git *), apply_patch(src/**), mcp(server) or *',
    ],
    ["shell(", '"shell(" says nothing in its parentheses; write it like shell(git *)'],
    ["shell()", '"shell()" says nothing in its parentheses; write it like shell(git *)'],
    ["shell(git", '"shell(git" says nothing in its parentheses; write it like shell(git *)'],
    ["write_file()", '"write_file()" says nothing in its parentheses; write it like write_file(src/**)'],
    ["shell('a)", '"shell(\'a)" has a quote that does not end; close it, or write a backslash before it'],
    ["mcp", '"mcp" names no server; write mcp(server), mcp(server:tool) or mcp(*)'],
    ["mcp(:x)", '"mcp(:x)" names no server or no tool; write mcp(server) or mcp(server:tool)'],
    ["Bash(git *)", '"Bash(git *)" names no tool of rkat; write shell or shell(git *)'],
    ["apply_patch(~/x)", '"apply_patch(~/x)" begins with ~, which is not known here; write the folder out'],
  ])("[I1] [H1] %j is refused by name, with what to write", (text, sentence) => {
    expect(readPattern(text)).toBe(sentence);
    expect(PermissionRules.safeParse({ ask: [text] }).error?.issues[0]?.message).toBe(sentence);
  });

  it("[I1] [H1] is one of a bounded list, of a bounded length, of a kind that is known", () => {
    const message = (value: unknown) => PermissionRules.safeParse(value).error?.issues[0]?.message;
    expect(message({ allow: ["x".repeat(1_001)] })).toContain("is too long; write at most 1000 signs");
    expect(message({ allow: Array.from({ length: 1_001 }, () => "x") })).toBe("write at most 1000 patterns");
    expect(message({ allows: [] })).toBe("allows is no kind of rule; write allow, ask or deny");
    expect(message([])).toBe('write an object of rules, like {"allow": ["shell(git *)"]}');
    expect(message({ allow: [1] })).toBe("write a text, like shell(git *)");
  });
});
