import type { Word, WordPart } from "unbash";
import { type Item, UNKNOWN } from "./glob.ts";

/** Everything a command line may run, whether or not it does. */
export interface ShellLine {
  readonly commands: readonly ShellCommand[];
  /** Files written by redirections, as spelled; undefined if unknown. */
  readonly writes: readonly (string | undefined)[];
  /** Why the line cannot be fully analysed before it runs. */
  readonly unknown: string | undefined;
}

/** One program with its arguments, and the commands it runs. */
export interface ShellCommand {
  /** Variables that are not harmless come first, as `NAME=value`. */
  readonly words: readonly ShellWord[];
  readonly nameAt: number;
  /** From its name on, without known options before a subcommand: `git -C . push`. */
  readonly bare: readonly ShellWord[];
  /** Starts no program that an argument names, except those in `runs`. */
  readonly isLeaf: boolean;
  /** Does nothing by itself that needs a rule. */
  readonly isHarmless: boolean;
  readonly runs: Runs | undefined;
}

export interface Runs {
  readonly line: ShellLine;
  /** A pattern that spells the words up to this index allows the inner line, too. */
  readonly namedTo: number;
}

export const lineOf = (commands: readonly ShellCommand[]): ShellLine => ({ commands, writes: [], unknown: undefined });
export const unknownLine = (why: string): ShellLine => ({ commands: [], writes: [], unknown: why });

/** The program's name without its folder; undefined if unknown. */
export function programOf({ words, nameAt }: Pick<ShellCommand, "words" | "nameAt">): string | undefined {
  const name = words[nameAt];
  return name === undefined || !isKnown(name) ? undefined : name.text.slice(name.text.lastIndexOf("/") + 1);
}

/** A word of a command: `UNKNOWN` stands for text that only the shell knows, `isMany` for any number of words. */
export type ShellWord = Item;

const UNKNOWN_WORD: ShellWord = { text: UNKNOWN };
export const UNKNOWN_WORDS: ShellWord = { text: UNKNOWN, isMany: true };

export function isKnown({ text, isMany }: ShellWord): boolean {
  return isMany !== true && !text.includes(UNKNOWN);
}

/** Expands a word as far as possible before the shell runs. */
export function shellWord(word: Word): ShellWord {
  const { parts } = word;
  // A tilde at the beginning, or at the beginning of a value, becomes a folder.
  if (/(?:^|[=:])~/.test(word.text)) return UNKNOWN_WORD;
  if (parts === undefined) return { text: isPlain(word.text) ? word.value : UNKNOWN };
  const read = parts.map(partOf);
  const text = read.map((part) => part.text).join("");
  return read.some(({ isMany }) => isMany === true) ? { text, isMany: true } : { text };
}

/** A second check, in case the parser took an expansion for text. */
function isPlain(text: string): boolean {
  if (!/[$`*?'"\\]/.test(text)) return true;
  return !/[$`*?'"]/.test(text.replaceAll(/\\./gs, ""));
}

function partOf(part: WordPart): ShellWord {
  switch (part.type) {
    case "Literal":
      return { text: isPlain(part.text) ? part.value : UNKNOWN };
    case "SingleQuoted":
    case "AnsiCQuoted":
      return { text: part.value };
    case "DoubleQuoted":
      return quoted(part.parts);
    case "LocaleString":
    case "ProcessSubstitution":
      return UNKNOWN_WORD;
    case "Glob":
    case "ExtendedGlob":
    case "BraceExpansion":
    case "SimpleExpansion":
    case "ParameterExpansion":
    case "CommandExpansion":
    case "ArithmeticExpansion":
      return UNKNOWN_WORDS;
  }
}

/** In double quotes an expansion is one word, unless it is a whole list: `"$@"`, `"${a[@]}"`, `"${!a@}"`. */
function quoted(parts: readonly WordPart[]): ShellWord {
  const isMany = parts.some((part) => part.type !== "Literal" && part.text.includes("@"));
  const text = parts.map((part) => (part.type === "Literal" ? part.value : UNKNOWN)).join("");
  return isMany ? { text, isMany } : { text };
}

/** Variables that affect output, not what programs do or start. */
const HARMLESS = new Set([
  "LANG",
  "LANGUAGE",
  "TZ",
  "TERM",
  "COLUMNS",
  "LINES",
  "NO_COLOR",
  "FORCE_COLOR",
  "CLICOLOR",
  "CLICOLOR_FORCE",
  "CI",
  "NODE_ENV",
  "RUST_BACKTRACE",
  "RUST_LOG",
  "PYTHONUNBUFFERED",
  "PYTHONDONTWRITEBYTECODE",
  "GOOS",
  "GOARCH",
  "DEBIAN_FRONTEND",
  "IFS",
]);

/** Variables that decide what a program, or the shell, starts. */
const STEERING =
  /^(?:PATH|ENV|BASH_ENV|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|EDITOR|VISUAL|PAGER|BROWSER|SHELL|MAKEFLAGS|NODE_OPTIONS|RUBYOPT|CDPATH|(?:LD|DYLD|GIT|PYTHON|PERL5?|JAVA|JDK|npm_config)_.*|PYTHON[A-Z]+|PERL5[A-Z]+|[A-Z_]+_(?:PAGER|EDITOR|WRAPPER))$/;

export function isSteering(assigned: string): boolean {
  return STEERING.test(/^\w*/.exec(assigned)?.[0] ?? "");
}

/** Variables that name a program, or a place to load programs, libraries or configuration from. */
const LOADING =
  /^(?:HOME|XDG_CONFIG_HOME|ZDOTDIR|CC|CXX|LESSOPEN|LESSCLOSE|MANPAGER|CLASSPATH|GCONV_PATH|RUBYLIB|NODE_PATH|RUSTC|RUSTFLAGS|GO(?:ROOT|PATH|BIN|FLAGS|ENV)|(?:CARGO|RUSTC|DOTNET|BUNDLE|GEM|LUA|PHP)_[A-Z_]+|\w+_(?:ASKPASS|COMMAND|RSH|SSH))$/;

export function decidesProgram(name: string): boolean {
  return isSteering(name) || LOADING.test(name);
}

/** Whether a program behaves the same with this variable: `PATH=. git` runs another git. */
export function isHarmlessForPrograms(name: string): boolean {
  return HARMLESS.has(name) || /^LC_[A-Z]+$/.test(name);
}

/** The same for shell variables: lower-case names do not reach programs, except these. */
export function isHarmlessForShell(name: string): boolean {
  if (isHarmlessForPrograms(name)) return true;
  return /^[a-z][a-z0-9_]*$/.test(name) && !/^(?:npm|yarn|pip|git|make|cargo)_|_proxy$/.test(name);
}
