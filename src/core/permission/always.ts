import type { CallNames, Part } from "./pattern.ts";
import type { ShellCommand } from "./shell-command.ts";
import { HAS_SUBCOMMANDS, LOOKS } from "./shell-leaves.ts";
import { isKnown } from "./shell-word.ts";

const PATTERNS_MAX = 5;
const PATTERN_CHARS_MAX = 300;

/** The narrowest patterns that would allow these parts from now on; undefined where they cannot be named safely. */
export function alwaysOf(parts: readonly Part[], call: CallNames): readonly string[] | undefined {
  const named = new Set<string>();
  for (const part of parts) {
    const pattern = patternOf(part, call);
    if (pattern === undefined || pattern.length > PATTERN_CHARS_MAX) return undefined;
    named.add(pattern);
  }
  return named.size === 0 || named.size > PATTERNS_MAX ? undefined : [...named];
}

function patternOf(part: Part, { tool, mcp }: CallNames): string | undefined {
  switch (part.kind) {
    case "call":
      if (mcp === undefined) return tool;
      return /[():*\\]/.test(mcp.server + mcp.tool) ? tool : `mcp(${mcp.server}:${mcp.tool})`;
    case "unknown":
      return undefined;
    case "path":
      return mcp === undefined ? pathPattern(part) : `mcp(${mcp.server}:${mcp.tool})`;
    case "command":
      return commandPattern(part.command);
  }
}

/** The folder of the file; a file of the project's own folder alone, and nothing outside of the project. */
function pathPattern({ tool, path }: Extract<Part, { kind: "path" }>): string | undefined {
  if (path?.real.inside === undefined) return undefined;
  const names = path.real.inside.map(({ text }) => text.replaceAll(/[*\\]/g, "\\$&"));
  const folder = names.slice(0, -1).join("/");
  return `${tool}(${folder === "" ? names.join("/") : `${folder}/**`})`;
}

/** Subcommands that say by their next argument what they do. */
const HAS_FURTHER = new Set("run exec x compose remote stash worktree submodule config pr issue repo".split(" "));

/** Exactly this command, unless it is known what of it may vary. */
function commandPattern({ words, nameAt, runs }: ShellCommand): string | undefined {
  const [name, sub, further] = words;
  if (nameAt > 0 || name === undefined) return exactPattern(words);
  if (runs === undefined && LOOKS.test(name.text) && isKnown(name)) return `shell(${name.text} *)`;
  if (HAS_SUBCOMMANDS.test(name.text) && isSubcommand(sub?.text)) {
    if (!HAS_FURTHER.has(sub?.text ?? "")) return `shell(${name.text} ${sub?.text} *)`;
    return isSubcommand(further?.text) ? `shell(${name.text} ${sub?.text} ${further?.text} *)` : exactPattern(words);
  }
  return exactPattern(words);
}

function isSubcommand(text: string | undefined): boolean {
  return text !== undefined && /^[a-z][a-z0-9:-]*$/.test(text);
}

function exactPattern(words: ShellCommand["words"]): string | undefined {
  if (!words.every(isKnown)) return undefined;
  return `shell(${words.map(({ text }) => quoted(text)).join(" ")})`;
}

function quoted(text: string): string {
  if (/^[\w./:=@%+,-]+$/.test(text)) return text;
  return `'${text.replaceAll(/[\\']/g, "\\$&")}'`;
}
