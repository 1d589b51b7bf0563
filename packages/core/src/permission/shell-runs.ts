import { UNKNOWN } from "./glob.ts";
import {
  isHarmlessForPrograms,
  isHarmlessForShell,
  isKnown,
  isSteering,
  lineOf,
  programOf,
  type Runs,
  type ShellCommand,
  type ShellLine,
  type ShellWord,
  UNKNOWN_WORDS,
  unknownLine,
} from "./shell-command.ts";
import { isLeaf } from "./shell-leaves.ts";

/** Parses a script within the remaining depth. */
export type ReadLine = (script: string) => ShellLine;

/** The commands a program runs; undefined for none; `isOpaque` if it does something else as well. */
interface Found extends Runs {
  readonly isOpaque?: boolean;
}
type Finder = (words: readonly ShellWord[], read: ReadLine, depth: number) => Found | undefined;

const WRAPPERS_MAX = 16;
const NEVER = Number.POSITIVE_INFINITY;

/** A command and what it runs; `assigned` are its variables that are not harmless. */
export function describeCommand(
  assigned: readonly ShellWord[],
  words: readonly ShellWord[],
  read: ReadLine,
  depth = 0,
): ShellCommand {
  const nameAt = assigned.length;
  const all = [...assigned, ...words];
  const [name] = words;
  const steering = assigned.find(({ text }) => isSteering(text));
  const steered = steering && `${steering.text.split("=", 1)[0]} decides what is run`;
  if (name === undefined) {
    const runs = steered === undefined ? undefined : { line: unknownLine(steered), namedTo: 0 };
    return { words: all, nameAt: 0, bare: all, isLeaf: true, isHarmless: false, runs };
  }
  const program = programOf({ words, nameAt: 0 });
  if (program === undefined) {
    return {
      words: all,
      nameAt,
      bare: words,
      isLeaf: true,
      isHarmless: false,
      runs: { line: unknownLine("an expansion produces a program's name"), namedTo: NEVER },
    };
  }
  const find = FINDERS.get(program) ?? FINDERS.get(program.toLowerCase());
  const found =
    depth >= WRAPPERS_MAX
      ? { line: unknownLine("programs are nested too deeply"), namedTo: NEVER }
      : find?.(words, read, depth + 1);
  // A path or a variable may lead to another program of that name.
  const isItself = name.text === program && assigned.length === 0;
  const isHarmless =
    isItself && (found === undefined ? QUIET.has(program) : SEEN_THROUGH.has(program) && found.isOpaque !== true);
  const runs = found && { line: found.line, namedTo: found.namedTo + nameAt };
  const bare = program === "git" ? [name, ...words.slice(afterOptions(words, GIT_OPTIONS) ?? 1)] : words;
  const described = { words: all, nameAt, bare, isLeaf: find !== undefined || isLeaf(words, bare), isHarmless };
  if (steered === undefined) return { ...described, runs };
  const { line = lineOf([]), namedTo = nameAt } = runs ?? {};
  return { ...described, runs: { line: { ...line, unknown: line.unknown ?? steered }, namedTo } };
}

/** Builtins that change nothing outside the shell. */
const QUIET = new Set(
  ": true false exit return break continue shift echo printf pwd test [ wait set command exec eval trap unset read".split(
    " ",
  ),
);

/** Programs that only run another one. */
const SEEN_THROUGH = new Set(
  "env command builtin exec eval nohup nice choom timeout stdbuf setsid ionice time xargs busybox trap sh bash dash rbash".split(
    " ",
  ),
);

interface Options {
  /** Letters of flags without a value, and of those with one. */
  readonly flags?: string;
  readonly valued?: string;
  readonly long?: readonly string[];
  readonly longValued?: readonly string[];
  readonly operands?: number;
  readonly hasVariables?: boolean;
  /** Added to the program's arguments. */
  readonly adds?: readonly ShellWord[];
}

/** Options before a subcommand that start nothing; `-c` may set an alias, which can. */
const GIT_OPTIONS: Options = {
  flags: "pP",
  valued: "Cc",
  long: "no-pager paginate bare literal-pathspecs no-optional-locks no-replace-objects".split(" "),
  longValued: "git-dir work-tree namespace exec-path".split(" "),
};

const OPTIONS_UNKNOWN = "an option decides what runs";

/** The index of the first word that is no option; undefined after an unknown option. */
function afterOptions(
  words: readonly ShellWord[],
  { flags = "", valued = "", long = [], longValued = [] }: Options,
): number | undefined {
  let at = 1;
  while (at < words.length) {
    const word = words[at];
    if (word === undefined || word.isMany === true || word.text.startsWith(UNKNOWN)) return undefined;
    const { text } = word;
    if (text === "--") return at + 1;
    if (!text.startsWith("-") || text === "-") return at;
    if (text.startsWith("--")) {
      const [name = "", value] = text.slice(2).split("=", 2);
      if (long.includes(name)) at += 1;
      else if (longValued.includes(name)) at += value === undefined ? 2 : 1;
      else return undefined;
      continue;
    }
    const letters = [...text.slice(1)];
    const taking = letters.findIndex((letter) => valued.includes(letter));
    if (letters.slice(0, taking < 0 ? letters.length : taking).some((letter) => !flags.includes(letter)))
      return undefined;
    at += taking === letters.length - 1 && taking >= 0 ? 2 : 1;
  }
  return at;
}

/** Programs followed by the command they run. */
const launcher =
  (options: Options): Finder =>
  (words, read, depth) => {
    const start = afterOptions(words, options);
    if (start === undefined) return { line: unknownLine(OPTIONS_UNKNOWN), namedTo: NEVER };
    let at = start + (options.operands ?? 0);
    const assigned: ShellWord[] = [];
    for (; options.hasVariables === true; at += 1) {
      const word = words[at];
      // For `env`, any word with `=` is a variable: `a.b=1`, `=1`.
      const [, variable] = /^([^=]*)=/.exec(word?.text ?? "") ?? [];
      if (word === undefined || variable === undefined) break;
      if (!isHarmlessForPrograms(variable)) assigned.push(word);
    }
    const inner = words.slice(at);
    if (inner.length === 0) return undefined;
    // A word that splits into several moves the program's name.
    if (words.slice(1, at).some(({ isMany }) => isMany === true)) {
      return { line: unknownLine(OPTIONS_UNKNOWN), namedTo: NEVER };
    }
    const command = describeCommand(assigned, [...inner, ...(options.adds ?? [])], read, depth);
    return { line: lineOf([command]), namedTo: at };
  };

const xargsOptions: Options = {
  flags: "0rtxp",
  valued: "InLPsdaE",
  long: ["null", "no-run-if-empty", "verbose", "exit", "interactive", "open-tty"],
  longValued: ["max-args", "max-lines", "max-procs", "max-chars", "delimiter", "arg-file", "process-slot-var"],
};

/** Its input becomes arguments, or replaces a text in them. */
const xargs: Finder = (words, read, depth) => {
  const start = afterOptions(words, xargsOptions) ?? NEVER;
  const options = words.slice(1, start);
  const insert = options.findIndex(({ text }) => /^-[0rtxp]*I/.test(text));
  if (insert < 0 || start === NEVER) return launcher({ ...xargsOptions, adds: [UNKNOWN_WORDS] })(words, read, depth);
  const attached = (options[insert]?.text ?? "").replace(/^-[0rtxp]*I/, "");
  const place = attached === "" ? (options[insert + 1]?.text ?? "") : attached;
  if (place === "" || place.includes(UNKNOWN)) return { line: unknownLine(OPTIONS_UNKNOWN), namedTo: NEVER };
  const filled = words.map((word, at) => (at < start ? word : { ...word, text: word.text.replaceAll(place, UNKNOWN) }));
  return launcher(xargsOptions)(filled, read, depth);
};

/** A shell with its script as an argument, or from an unknown place. */
const shell: Finder = (words, read) => {
  let at = 1;
  let hasScript = false;
  for (; at < words.length; at += 1) {
    const { text = "", isMany } = words[at] ?? {};
    if (isMany === true || text.startsWith(UNKNOWN))
      return { line: unknownLine(OPTIONS_UNKNOWN), namedTo: NEVER, isOpaque: true };
    if (text === "--") {
      at += 1;
      break;
    }
    if (/^--(?:norc|noprofile|posix|login)$/.test(text)) continue;
    if (!/^[-+]./.test(text)) break;
    const [, letters, option] = /^[-+]([ceuxvlfn]*)(o?)$/.exec(text) ?? [];
    if (letters === undefined) return { line: unknownLine(OPTIONS_UNKNOWN), namedTo: NEVER, isOpaque: true };
    if (text.startsWith("-") && letters.includes("c")) hasScript = true;
    if (option !== "o") continue;
    at += 1;
    if (!/^(?:errexit|nounset|pipefail|xtrace|noglob)$/.test(words[at]?.text ?? "")) {
      return { line: unknownLine(OPTIONS_UNKNOWN), namedTo: NEVER, isOpaque: true };
    }
  }
  const script = words[at];
  if (!hasScript || script === undefined) {
    const line = unknownLine("a shell reads its script from a file or from its input");
    return { line, namedTo: script === undefined ? NEVER : at, isOpaque: true };
  }
  if (!isKnown(script)) return { line: unknownLine("an expansion produces a shell's script"), namedTo: NEVER };
  return { line: read(script.text), namedTo: at };
};

/** Words that are joined and parsed again. */
const evaluation: Finder = (words, read) => {
  const args = words.slice(1);
  if (args.length === 0) return undefined;
  if (!args.every(isKnown)) return { line: unknownLine("eval is given an expansion"), namedTo: NEVER };
  return { line: read(args.map(({ text }) => text).join(" ")), namedTo: words.length - 1 };
};

const trap: Finder = (words, read) => {
  const [, first] = words;
  if (first === undefined || ["-", "", "-p", "-l", "--"].includes(first.text)) {
    return first?.text === "--" ? { line: unknownLine(OPTIONS_UNKNOWN), namedTo: NEVER } : undefined;
  }
  if (!isKnown(first)) return { line: unknownLine("trap is given an expansion"), namedTo: NEVER };
  return { line: read(first.text), namedTo: 1 };
};

/** Cannot be analysed; a pattern that spells the words up to `namedTo`, or all of them, allows it. */
const opaque =
  (why: string, namedTo?: number): Finder =>
  (words) => ({ line: unknownLine(why), namedTo: namedTo ?? words.length - 1, isOpaque: true });

/** The same because of certain arguments; a pattern that spells up to the last of them allows it. */
const opaqueWith =
  (why: string, isIt: (word: ShellWord, at: number, words: readonly ShellWord[]) => boolean): Finder =>
  (words, read, depth) => {
    const last = words.findLastIndex((word, at) => at > 0 && isIt(word, at, words));
    return last < 0 ? undefined : opaque(why, last)(words, read, depth);
  };

const NAMES = "it may set a variable that decides what runs";

/** Whether a word may set an unsafe variable, or a computed name, which runs its content. */
const setsUnsafe =
  (isHarmless: (name: string) => boolean) =>
  (word: ShellWord): boolean => {
    if (word.isMany === true || word.text.startsWith(UNKNOWN)) return true;
    if (/^-[a-zA-Z]*[iIn]/.test(word.text) || /\[/.test(word.text.split("=", 1)[0] ?? "")) return true;
    const [, name] = /^([A-Za-z_]\w*)\+?(?:=|$)/.exec(word.text) ?? [];
    return name === undefined ? word.text.includes(UNKNOWN) : !isHarmless(name);
  };
const setsForPrograms = opaqueWith(NAMES, setsUnsafe(isHarmlessForPrograms));
const setsForShell = opaqueWith(NAMES, setsUnsafe(isHarmlessForShell));

const printf: Finder = (words, read, depth) => {
  const [, first] = words;
  const mayName =
    first !== undefined && (first.isMany === true || first.text.startsWith(UNKNOWN) || first.text.startsWith("-v"));
  return mayName ? opaque(NAMES)(words, read, depth) : undefined;
};

const FOLLOWS_OPERAND = /^(?:=|==|!=|<|>|-eq|-ne|-lt|-gt|-le|-ge|-nt|-ot|-ef|-a|-o|\)|\])$/;

/** `-v` evaluates its operand; an unknown operand may be one, unless an operator follows. */
const test = opaqueWith("a test may compute a name", (word, at, words) => {
  const next = words[at + 1];
  if (word.isMany === true) return true;
  if (/^-[vR]$/.test(word.text)) return next === undefined || !/^\w+$/.test(next.text);
  return word.text.startsWith(UNKNOWN) && next !== undefined && !FOLLOWS_OPERAND.test(next.text);
});

const HARMLESS_SET = /^(?:[-+][euxvf]+o?|[-+]o|errexit|nounset|pipefail|xtrace|noglob)$/;
const set = opaqueWith(
  "it changes how the shell parses what follows",
  ({ text, isMany }) => isMany === true || !HARMLESS_SET.test(text),
);

const FINDS_BY = /^-(?:exec|execdir|ok|okdir)$/;
const FINDS_AND_CHANGES = /^-(?:delete|fprint|fprint0|fprintf|fls)$/;

const find: Finder = (words, read, depth) => {
  const hidden = words.findLastIndex(
    ({ text, isMany }) => isMany === true || text.startsWith(UNKNOWN) || FINDS_AND_CHANGES.test(text),
  );
  if (hidden >= 0) return opaque("find may run programs or delete files", hidden)(words, read, depth);
  const commands: ShellCommand[] = [];
  let last = -1;
  for (let at = 1; at < words.length; at += 1) {
    if (!FINDS_BY.test(words[at]?.text ?? "")) continue;
    const end = words.findIndex(
      ({ text }, index) => index > at && (text === ";" || (text === "+" && words[index - 1]?.text === "{}")),
    );
    const inner = words.slice(at + 1, end < 0 ? words.length : end);
    const filled = inner.map((word) => ({ ...word, text: word.text.replaceAll("{}", UNKNOWN) }));
    commands.push(describeCommand([], filled, read, depth));
    last = at + 1;
    // These words belong to the inner program: reading them again would double the work per level.
    at = end < 0 ? words.length : end;
    if (commands.length > WRAPPERS_MAX) return opaque("find runs too many programs", NEVER)(words, read, depth);
  }
  return commands.length === 0 ? undefined : { line: lineOf(commands), namedTo: last, isOpaque: true };
};

const asks = (words: readonly ShellWord[]) => /^-[pvV]*[vV]/.test(words[1]?.text ?? "");
const runsCommand = launcher({ flags: "p" });
const command: Finder = (words, read, depth) => (asks(words) ? undefined : runsCommand(words, read, depth));

const runsForJobs = launcher({ flags: "x" });
const jobs: Finder = (words, read, depth) =>
  /^(?:%.*|-[lnprs]+)?$/.test(words[1]?.text ?? "") ? undefined : runsForJobs(words, read, depth);

const NOT_READ = "it runs a program in a way that cannot be analysed";
/** Allowed by a pattern that spells their first argument: a host, a script, a program. */
const NAMED =
  "ssh su flock strace ltrace entr at batch ash ksh mksh zsh fish csh tcsh pwsh rksh posh yash elvish nu toybox";
/** Their program follows options: a pattern must spell all words. */
const SPELLED =
  "parallel watch script chroot unshare nsenter runuser setpriv systemd-run taskset setarch linux32 linux64 chrt prlimit sg pkexec start-stop-daemon run-parts fakeroot dbus-run-session gosu su-exec bwrap";

const FINDERS: ReadonlyMap<string, Finder> = new Map<string, Finder>([
  [
    "env",
    launcher({
      flags: "i0v",
      valued: "u",
      long: ["ignore-environment", "null", "debug"],
      longValued: ["unset"],
      hasVariables: true,
    }),
  ],
  ["command", command],
  ["builtin", launcher({})],
  ["exec", launcher({ flags: "cl", valued: "a" })],
  ["nohup", launcher({})],
  ["nice", launcher({ flags: "0123456789", valued: "n", longValued: ["adjustment"] })],
  ["ionice", launcher({ flags: "t", valued: "cn" })],
  ["choom", launcher({ valued: "np", longValued: ["adjust", "pid"] })],
  ["jobs", jobs],
  [
    "timeout",
    launcher({
      flags: "v",
      valued: "ks",
      long: ["foreground", "preserve-status", "verbose"],
      longValued: ["kill-after", "signal"],
      operands: 1,
    }),
  ],
  ["stdbuf", launcher({ valued: "ioe", longValued: ["input", "output", "error"] })],
  ["setsid", launcher({ flags: "cfw", long: ["ctty", "fork", "wait"] })],
  ["time", launcher({ flags: "pvq", valued: "f" })],
  ["busybox", launcher({})],
  ["xargs", xargs],
  ["find", find],
  ["sudo", launcher({ flags: "EnkbHSP", valued: "ugpCTr", hasVariables: true })],
  ["doas", launcher({ flags: "n", valued: "u" })],
  ...["sh", "bash", "dash", "rbash"].map((name): [string, Finder] => [name, shell]),
  ["eval", evaluation],
  ["trap", trap],
  [".", opaque("it reads a file of commands", 1)],
  ["source", opaque("it reads a file of commands", 1)],
  ["printf", printf],
  ["test", test],
  ["[", test],
  ["set", set],
  ...["export", "declare", "typeset", "local", "readonly"].map((name): [string, Finder] => [name, setsForPrograms]),
  ...["read", "unset", "getopts", "wait"].map((name): [string, Finder] => [name, setsForShell]),
  ...["alias", "let", "hash", "enable", "shopt", "bind", "complete", "compgen", "fc", "mapfile", "readarray"].map(
    (name): [string, Finder] => [name, opaque("it changes what the shell runs")],
  ),
  ...NAMED.split(" ").map((name): [string, Finder] => [name, opaque(NOT_READ, 1)]),
  ...SPELLED.split(" ").map((name): [string, Finder] => [name, opaque(NOT_READ)]),
]);
