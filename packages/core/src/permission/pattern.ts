import { invalid } from "../contract/error.ts";
import { readPattern } from "../contract/permission.ts";
import { compileGlob, type Glob, type Item, matchesGlob, matchesSteps, mayBegin, type Step } from "./glob.ts";
import { type JudgedPath, type Place, pathParts } from "./paths.ts";
import { programOf, type ShellCommand } from "./shell-command.ts";

export interface CallNames {
  readonly tool: string;
  readonly mcp?: { readonly server: string; readonly tool: string } | undefined;
}

/** A command or unknown part, with the commands that run it. */
interface Within {
  readonly within: readonly { readonly command: ShellCommand; readonly namedTo: number }[];
}

/** The parts of a call that rules apply to. A call has at least one, and each must be allowed. */
export type Part =
  | { readonly kind: "call" }
  | ({ readonly kind: "path"; readonly tool: string; readonly path: JudgedPath | undefined } & Within)
  /** `names`: words that may name a program it starts. */
  | ({ readonly kind: "command"; readonly command: ShellCommand; readonly names: readonly Item[] } & Within)
  | ({ readonly kind: "unknown"; readonly why: string } & Within);

/** A compiled pattern. */
export interface Matcher {
  readonly text: string;
  /** Whether it applies to commands only. */
  readonly isOfShell?: boolean;
  /** Whether it matches this part, whatever its unknown parts are. */
  matches(part: Part, call: CallNames): boolean;
  /** Whether it could match. */
  mayMatch(part: Part, call: CallNames): boolean;
  /** As `matches`, but as a permission: another spelling or folder is another program. */
  allows(part: Part, call: CallNames): boolean;
}

/** Throws INVALID_PARAMS for an invalid pattern. */
export function compilePattern(text: string): Matcher {
  const pattern = readPattern(text);
  if (typeof pattern === "string") throw invalid(pattern);
  switch (pattern.kind) {
    case "tool":
      return { text, ...toolMatcher(compileGlob(pattern.tool)) };
    case "mcp": {
      const [server, tool] = [compileGlob(pattern.server), compileGlob(pattern.tool)];
      return always(
        text,
        (_part, { mcp }) => mcp !== undefined && matchesGlob(server, mcp.server) && matchesGlob(tool, mcp.tool),
      );
    }
    case "path":
      return { text, ...pathMatcher(compileGlob(pattern.tool), pattern.path) };
    case "shell":
      return { text, isOfShell: true, ...shellMatcher(pattern.words) };
  }
}

type Match = Matcher["matches"];

/** A matcher for parts without unknowns. */
function always(text: string, matches: Match): Matcher {
  return { text, matches, mayMatch: matches, allows: matches };
}

/** A file written by the shell is judged like one that `apply_patch` changes, which stays inside the project. */
function toolMatcher(glob: Glob): Omit<Matcher, "text"> {
  const matches: Match = (part, { tool }) =>
    matchesGlob(glob, tool) || (part.kind === "path" && matchesGlob(glob, part.tool));
  return {
    matches,
    mayMatch: matches,
    allows: (part, call) =>
      matchesGlob(glob, call.tool) ||
      (part.kind === "path" && part.path?.real.inside !== undefined && matches(part, call)),
  };
}

function pathMatcher(tool: Glob, path: string): Omit<Matcher, "text"> {
  const isAbsolute = path.startsWith("/");
  const written = pathParts((path.endsWith("/") ? `${path}**` : path).normalize("NFC"));
  const globAt = written.findIndex((part) => /[*\\]/.test(part));
  const spelled = globAt < 0 ? written : written.slice(0, globAt);
  const steps = (texts: readonly string[]) => texts.map((text): Step => (text === "**" ? "any" : compileGlob(text)));
  const exact = steps(written);
  const loose = steps(written.map((text) => text.toLowerCase()));
  const isAbout = (part: Part, call: CallNames): boolean =>
    matchesGlob(tool, part.kind === "path" ? part.tool : call.tool);
  const holds = ({ absolute, inside }: Place, wanted: readonly Step[]): boolean => {
    const items = isAbsolute ? absolute : inside;
    return items !== undefined && matchesSteps(items, wanted, false);
  };
  /** Whether the file is the target of a link that the pattern spells. */
  const holdsBehindLinks = ({ names, follow }: JudgedPath): boolean => {
    const led = spelled.length === 0 ? undefined : follow(`${isAbsolute ? "/" : ""}${spelled.join("/")}`);
    if (led === undefined) return false;
    const behind: readonly Step[] = [...led.map((text) => ({ pieces: [text] })), ...loose.slice(spelled.length)];
    return names.some(({ absolute }) => matchesSteps(absolute, behind, false));
  };
  const matches: Match = (part, call) => {
    if (part.kind !== "path" || part.path === undefined || !isAbout(part, call)) return false;
    return part.path.names.some((name) => holds(name, loose)) || holdsBehindLinks(part.path);
  };
  return {
    matches,
    // An unknown file may be this one.
    mayMatch: (part, call) =>
      isAbout(part, call) &&
      (part.kind === "call" || (part.kind === "path" && part.path === undefined) || matches(part, call)),
    allows: (part, call) =>
      part.kind === "path" && part.path !== undefined && isAbout(part, call) && holds(part.path.real, exact),
  };
}

function shellMatcher(words: readonly string[]): Omit<Matcher, "text"> {
  const steps = words.map((word): Step => (word === "*" ? "any" : compileGlob(word)));
  const [first = ""] = words;
  /** Deny and ask skip options before a word: `chmod -R 777 x` matches `chmod 777`. */
  const loose = words.flatMap((word, at): Step[] => {
    if (word === "*") return ["any"];
    const isAfterOptions = at > 0 && words[at - 1] !== "*" && !word.startsWith("-");
    return [...(isAfterOptions ? ["options" as const] : []), compileGlob(at === 0 ? word.toLowerCase() : word)];
  });
  const program = compileGlob(first.slice(first.lastIndexOf("/") + 1).toLowerCase());
  const named: readonly Step[] | undefined = first === "*" ? undefined : ["any", program, ...loose.slice(1), "any"];
  const isFound = (command: ShellCommand, isPossible: boolean): boolean => {
    const { words: given, nameAt, bare } = command;
    if (matchesSteps(given, steps, isPossible)) return true;
    if (nameAt > 0 && matchesSteps(given.slice(nameAt), steps, isPossible)) return true;
    const called = programOf(command)?.toLowerCase();
    if (called === undefined || !mayBegin({ text: called }, loose[0], false)) return false;
    return matchesSteps([{ text: called }, ...bare.slice(1)], loose, isPossible);
  };
  /** Whether it spells the words up to an index without a star. */
  const names = (command: ShellCommand, namedTo: number): boolean =>
    namedTo < steps.length && !steps.slice(0, namedTo + 1).includes("any") && matchesSteps(command.words, steps, false);
  return {
    matches: (part) => part.kind === "command" && isFound(part.command, false),
    mayMatch: (part) => {
      if (part.kind !== "command") return part.kind === "unknown";
      return isFound(part.command, true) || (named !== undefined && matchesSteps(part.names, named, true));
    },
    allows: (part) => {
      if (part.kind === "call") return false;
      if (part.within.some(({ command, namedTo }) => names(command, namedTo))) return true;
      return part.kind === "command" && matchesSteps(part.command.words, steps, false);
    },
  };
}
