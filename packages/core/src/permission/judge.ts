import { invalid } from "../contract/error.ts";
import { type PermissionRules, type PermissionVerdict, readPattern } from "../contract/permission.ts";
import type { JsonObject } from "../contract/session.ts";
import type { Tool } from "../ports/tool.ts";
import { compileGlob, type Glob, type Item, matchesGlob, matchesSteps, mayBegin, type Step } from "./glob.ts";
import { createPlacing, type JudgedPath, type Place, pathParts, pathsOf, type ReadLink } from "./paths.ts";
import { readShellLine } from "./shell.ts";
import { isKnown, programOf, type ShellCommand, type ShellLine } from "./shell-command.ts";
import { HAS_SUBCOMMANDS, isDecidedByLine, LOOKS, namesIn, tellingTexts } from "./shell-leaves.ts";

export interface JudgedCall {
  readonly tool: string;
  readonly args: JsonObject;
  /** Set for a tool of an MCP server: the server's name, and its own name for the tool. */
  readonly mcp?: Tool["mcp"] | undefined;
  /** Set for a message to another session: of each end its names. */
  readonly route?: { readonly from: readonly string[]; readonly to: readonly string[] } | undefined;
  /** The project's folder, absolute: paths are relative to it. */
  readonly root: string;
  /** Resolves links of paths; without it only the spelling is judged. */
  readonly readLink?: ReadLink | undefined;
}

/**
 * Rules with their origin. `answer` was added by an answer of "always": it satisfies every `ask` except the server's. A
 * `skill`'s permission satisfies none: it applies where no rule does.
 */
export interface PermissionLayer {
  readonly from: "server" | "user" | "project" | "session" | "answer" | "skill";
  readonly rules: PermissionRules;
}

export interface Judgement {
  readonly verdict: PermissionVerdict;
  /** One sentence for a person, without a full stop. */
  readonly why: string;
  /** The patterns that "always" would add to `allow`; undefined if none can be named safely. */
  readonly always: readonly string[] | undefined;
  /** The patterns by which an `allow` of the session would let the call run; undefined if none would. */
  readonly allowing?: readonly string[] | undefined;
}

type From = PermissionLayer["from"];

interface Layer {
  readonly from: From;
  readonly allow: readonly Matcher[];
  readonly ask: readonly Matcher[];
  readonly deny: readonly Matcher[];
}

/** Compiled layers, reusable for many calls. */
export interface PermissionPolicy {
  readonly layers: readonly Layer[];
  /** The layers for all tools except the shell. */
  readonly layersBesideShell: readonly Layer[];
  readonly fallback: (call: JudgedCall) => PermissionVerdict;
  readonly shellProgram: string | undefined;
}

/**
 * Compiles a policy; `fallback` applies where no rule matches. `shellProgram` runs command lines if it is not bash or
 * sh. Throws INVALID_PARAMS for a bad pattern.
 */
export function createPolicy(
  layers: readonly PermissionLayer[],
  fallback: (call: JudgedCall) => PermissionVerdict,
  shellProgram?: string,
): PermissionPolicy {
  const compiled = layers.map(({ from, rules: { allow = [], ask = [], deny = [] } }) => ({
    from,
    allow: allow.map(compilePattern),
    ask: ask.map(compilePattern),
    deny: deny.map(compilePattern),
  }));
  const beside = (matchers: readonly Matcher[]) => matchers.filter(({ isOfShell }) => isOfShell !== true);
  const layersBesideShell = compiled.map(({ from, allow, ask, deny }) => {
    return { from, allow: beside(allow), ask: beside(ask), deny: beside(deny) };
  });
  return { layers: compiled, layersBesideShell, fallback, shellProgram };
}

/** Judges a call: deny wins over ask, and ask over allow; every part must be allowed. */
export function judgeCall(policy: PermissionPolicy, call: JudgedCall): Judgement {
  const parts = partsOf(call, policy.shellProgram);
  const layers = call.tool === "shell" ? policy.layers : policy.layersBesideShell;
  const judged = parts.map((part) => ({ part, ...judgePart(part, layers, call) }));
  const denied = judged.find(({ verdict }) => verdict === "deny");
  if (denied !== undefined) return { verdict: "deny", why: denied.why, always: undefined };
  const open = judged.filter(({ verdict }) => verdict !== "allow");
  const asked = open.find(({ verdict }) => verdict === "ask");
  // A harmless part is covered by the rest of its line if a rule allows that.
  const left = open.filter(({ part }) => !isHarmless(part));
  if (asked === undefined && left.length === 0 && judged.length > open.length) {
    return { verdict: "allow", why: judged.find(({ verdict }) => verdict === "allow")?.why ?? "", always: undefined };
  }
  const verdict = asked === undefined ? policy.fallback(call) : "ask";
  const why =
    asked?.why ?? (left.find(({ part }) => part.kind === "unknown") ?? left[0] ?? open[0])?.why ?? "no rule matches it";
  const isFinal = verdict !== "ask" || open.some(({ isUnsatisfiable }) => isUnsatisfiable);
  const named = alwaysOf(
    (left.length === 0 ? open : left).map(({ part }) => part),
    call,
  );
  const needsAnswer = isFinal || open.some((one) => one.needsAnswer);
  return {
    verdict,
    why,
    always: isFinal ? undefined : named,
    allowing: needsAnswer ? undefined : (named ?? [call.tool]),
  };
}

function isHarmless(part: Part): boolean {
  return part.kind === "command" && part.command.isHarmless;
}

interface PartJudgement {
  /** Undefined if no rule applies. */
  readonly verdict: PermissionVerdict | undefined;
  readonly why: string;
  /** No answer of "always" would apply. */
  readonly isUnsatisfiable?: boolean;
  /** No rule of the session would apply. */
  readonly needsAnswer?: boolean;
}

const OWNERS: Readonly<Record<From, string>> = {
  server: "of the server",
  user: "of the user",
  project: "of the project",
  session: "of the session",
  answer: "that was answered",
  skill: "of a loaded skill",
};

/** Which origins can satisfy an `ask`: a closer user decision, never a file; nothing satisfies the server's. */
const SATISFIED_BY: Readonly<Record<From, readonly From[]>> = {
  server: [],
  user: ["session", "answer"],
  project: ["session", "answer"],
  session: ["answer"],
  answer: [],
  skill: [],
};

function judgePart(part: Part, layers: readonly Layer[], call: JudgedCall): PartJudgement {
  const denying = layers.flatMap(({ from, deny }) =>
    deny.filter((one) => one.mayMatch(part, call)).map((rule) => ({ from, rule })),
  );
  const sure = denying.find(({ rule }) => rule.matches(part, call));
  if (sure !== undefined) return { verdict: "deny", why: ruleText("deny", sure.rule, sure.from) };
  // The server's rules first: no user may pass what they deny.
  const possible = denying.find(({ from }) => from === "server") ?? denying[0];
  if (possible !== undefined) {
    const { rule, from } = possible;
    const why = `${ruleText("deny", rule, from)} may speak of it: ${doubtOf(part)}`;
    return { verdict: from === "server" ? "deny" : "ask", why, isUnsatisfiable: true };
  }
  const allowed = layers.flatMap(({ from, allow }) => {
    const rule = allow.find((one) => one.allows(part, call));
    return rule === undefined ? [] : [{ from, rule }];
  });
  for (const { from, ask } of layers) {
    const rule = ask.find((one) => one.mayMatch(part, call));
    if (rule === undefined || allowed.some((one) => SATISFIED_BY[from].includes(one.from))) continue;
    const needsAnswer = !SATISFIED_BY[from].includes("session");
    return { verdict: "ask", why: ruleText("ask", rule, from), isUnsatisfiable: from === "server", needsAnswer };
  }
  const [first] = allowed;
  if (first !== undefined) return { verdict: "allow", why: ruleText("allow", first.rule, first.from) };
  return {
    verdict: undefined,
    why: part.kind === "unknown" ? `cannot determine what it runs: ${part.why}` : "no rule matches it",
  };
}

function ruleText(kind: PermissionVerdict, { text }: Matcher, from: From): string {
  return `rule ${kind} ${text} ${OWNERS[from]}`;
}

function doubtOf(part: Part): string {
  switch (part.kind) {
    case "unknown":
      return part.why;
    case "command":
      return part.command.words.every(isKnown)
        ? "the command may start a program that an argument names"
        : "part of the command is unknown before it runs";
    case "path":
    case "call":
      return "cannot determine which file it affects";
  }
}

interface PartsSource {
  readonly tool: string;
  readonly args: JsonObject;
  readonly root: string;
  /** Without it links are not followed. */
  readonly readLink?: ReadLink | undefined;
}

/** Files of one call that are examined; further ones count as unknown. */
const PATHS_MAX = 1_000;

/** Shells whose command lines are parsed; other shells are unknown. */
const READ_SHELLS = /(?:^|\/)(?:bash|sh|dash)$/;

/** The parts of a call that must be allowed: commands and files they write, files, or the call as a whole. */
function partsOf(call: PartsSource, shellProgram?: string): readonly Part[] {
  const { tool, args, root, readLink } = call;
  if (tool === "shell") return shellParts(call, shellProgram);
  const paths = pathsOf(tool, args);
  if (paths.length === 0) return [{ kind: "call" }];
  const place = createPlacing({ folder: root, root }, readLink);
  return paths.slice(0, PATHS_MAX + 1).map((path, at) => ({
    kind: "path",
    tool,
    path: path === undefined || at === PATHS_MAX ? undefined : place(path),
    within: [],
  }));
}

function shellParts({ args, root, readLink }: PartsSource, shellProgram = "bash"): readonly Part[] {
  const { command, working_dir } = args;
  const unread = (why: string): readonly Part[] => [{ kind: "unknown", why, within: [] }];
  if (typeof command !== "string") return unread("it has no command line");
  if (!READ_SHELLS.test(shellProgram)) return unread(`command lines of ${shellProgram} are not parsed`);
  const folder = typeof working_dir === "string" ? `${root}/${working_dir}` : root;
  const seeing = { place: createPlacing({ folder, root }, readLink), namesOf: createNaming(command) };
  const parts = partsOfLine(readShellLine(command), [], seeing);
  // A comment is equivalent to `:`.
  return parts.length === 0 ? partsOfLine(readShellLine(":"), [], seeing) : parts;
}

type Within = Extract<Part, { kind: "unknown" }>["within"];

interface Seeing {
  readonly place: (path: string) => Extract<Part, { kind: "path" }>["path"];
  readonly namesOf: (command: ShellCommand) => Extract<Part, { kind: "command" }>["names"];
}

/** Words that may name a program that a command starts: its own words, or the whole line, once. */
function createNaming(line: string): Seeing["namesOf"] {
  let isLineRead = false;
  return (command) => {
    const isLine = !isLineRead && isDecidedByLine(command);
    isLineRead ||= isLine;
    return namesIn(tellingTexts(command, isLine ? [line] : []));
  };
}

function partsOfLine(line: ShellLine, within: Within, seeing: Seeing): readonly Part[] {
  const { commands, writes, unknown } = line;
  return [
    ...commands.flatMap((command): readonly Part[] => {
      const { runs } = command;
      const inner =
        runs === undefined ? [] : partsOfLine(runs.line, [...within, { command, namedTo: runs.namedTo }], seeing);
      return [{ kind: "command", command, names: seeing.namesOf(command), within }, ...inner];
    }),
    // A file written by the shell is judged like a patched one: a rule for a file holds for every writer.
    ...writes.map(
      (path): Part => ({
        kind: "path",
        tool: "apply_patch",
        path: path === undefined ? undefined : seeing.place(path),
        within,
      }),
    ),
    ...(unknown === undefined ? [] : [{ kind: "unknown", why: unknown, within } as const]),
  ];
}

const PATTERNS_MAX = 5;
const PATTERN_CHARS_MAX = 300;

/** The narrowest patterns that would allow these parts in future; undefined if none can be named safely. */
function alwaysOf(parts: readonly Part[], call: CallNames): readonly string[] | undefined {
  const named = new Set<string>();
  for (const part of parts) {
    const pattern = patternOf(part, call);
    if (pattern === undefined || pattern.length > PATTERN_CHARS_MAX) return undefined;
    named.add(pattern);
  }
  return named.size === 0 || named.size > PATTERNS_MAX ? undefined : [...named];
}

function patternOf(part: Part, { tool, mcp, route }: CallNames): string | undefined {
  switch (part.kind) {
    case "call":
      if (route !== undefined) return `comms(${route.from[0]} > ${route.to[0]})`;
      if (mcp === undefined) return tool;
      return mcpPattern(tool, mcp);
    case "unknown":
      return undefined;
    case "path":
      return mcp === undefined ? pathPattern(part) : mcpPattern(tool, mcp);
    case "command":
      return commandPattern(part.command);
  }
}

function mcpPattern(offered: string, { server, tool, fingerprint }: NonNullable<CallNames["mcp"]>): string {
  const isOdd = /[():*\\]/.test(server + tool);
  // The fingerprint is that of one tool of one server.
  if (fingerprint !== undefined) return `mcp(${isOdd ? "*:*" : `${server}:${tool}`}#${fingerprint})`;
  return isOdd ? offered : `mcp(${server}:${tool})`;
}

/** The file's folder; only the file itself in the project's root, and nothing outside the project. */
function pathPattern({ tool, path }: Extract<Part, { kind: "path" }>): string | undefined {
  if (path?.real.inside === undefined) return undefined;
  const names = path.real.inside.map(({ text }) => text.replaceAll(/[*\\]/g, "\\$&"));
  const folder = names.slice(0, -1).join("/");
  return `${tool}(${folder === "" ? names.join("/") : `${folder}/**`})`;
}

/** Subcommands whose next argument determines what they do. */
const HAS_FURTHER = new Set("run exec x compose remote stash worktree submodule config pr issue repo".split(" "));

/** Exactly this command, unless its variable part is known. */
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

interface CallNames {
  readonly tool: string;
  readonly route?: JudgedCall["route"];
  readonly mcp?: Tool["mcp"] | undefined;
}

/** A command or unknown part, with the commands that run it. */
interface InLine {
  readonly within: readonly { readonly command: ShellCommand; readonly namedTo: number }[];
}

/** The parts of a call that rules apply to. A call has at least one, and each must be allowed. */
type Part =
  | { readonly kind: "call" }
  | ({ readonly kind: "path"; readonly tool: string; readonly path: JudgedPath | undefined } & InLine)
  /** `names`: words that may name a program it starts. */
  | ({ readonly kind: "command"; readonly command: ShellCommand; readonly names: readonly Item[] } & InLine)
  | ({ readonly kind: "unknown"; readonly why: string } & InLine);

interface Matcher {
  readonly text: string;
  /** Whether it applies to commands only. */
  readonly isOfShell?: boolean;
  /** Whether it matches this part, whatever its unknown parts are. */
  matches(part: Part, call: CallNames): boolean;
  mayMatch(part: Part, call: CallNames): boolean;
  /** As `matches`, but as a permission: another spelling or folder is another program. */
  allows(part: Part, call: CallNames): boolean;
}

function compilePattern(text: string): Matcher {
  const pattern = readPattern(text);
  if (typeof pattern === "string") throw invalid(pattern);
  switch (pattern.kind) {
    case "tool":
      return { text, ...toolMatcher(compileGlob(pattern.tool)) };
    case "mcp": {
      const [server, tool] = [compileGlob(pattern.server), compileGlob(pattern.tool)];
      const isSame = ({ fingerprint }: NonNullable<CallNames["mcp"]>): boolean =>
        pattern.fingerprint === undefined || pattern.fingerprint === fingerprint;
      return always(
        text,
        (_part, { mcp }) =>
          mcp !== undefined && isSame(mcp) && matchesGlob(server, mcp.server) && matchesGlob(tool, mcp.tool),
      );
    }
    case "route": {
      const [from, to] = [compileGlob(pattern.from), compileGlob(pattern.to)];
      const has = (glob: Glob, names: readonly string[] = []) => names.some((name) => matchesGlob(glob, name));
      return always(text, (_part, { route }) => has(from, route?.from) && has(to, route?.to));
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
