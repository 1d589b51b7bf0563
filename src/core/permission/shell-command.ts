import { isKnown, type ShellWord } from "./shell-word.ts";

/** What a command line comes to: everything that may run, whether or not it does. */
export interface ShellLine {
  readonly commands: readonly ShellCommand[];
  /** Files that redirections write, as they are named; undefined for one that cannot be told. */
  readonly writes: readonly (string | undefined)[];
  /** Why it cannot be told before it runs what else does. */
  readonly unknown: string | undefined;
}

/** One program with its arguments, and what that program runs in turn. */
export interface ShellCommand {
  /** Variables that it is given and that are not harmless come first, as `NAME=value`. */
  readonly words: readonly ShellWord[];
  /** Where its name stands in `words`. */
  readonly nameAt: number;
  /** From its name on, without options between the name and a subcommand, where those are known: `git -C . push`. */
  readonly bare: readonly ShellWord[];
  /** It is known to start no program that an argument names, or `runs` has what it starts. */
  readonly isLeaf: boolean;
  /** It does nothing by itself that a rule would have to allow. */
  readonly isHarmless: boolean;
  readonly runs: Runs | undefined;
}

export interface Runs {
  readonly line: ShellLine;
  /** A pattern that spells the words up to this one allows what is run as well. */
  readonly namedTo: number;
}

export const lineOf = (commands: readonly ShellCommand[]): ShellLine => ({ commands, writes: [], unknown: undefined });
export const unknownLine = (why: string): ShellLine => ({ commands: [], writes: [], unknown: why });

/** The program's name without its folder; undefined where it cannot be told. */
export function programOf({ words, nameAt }: Pick<ShellCommand, "words" | "nameAt">): string | undefined {
  const name = words[nameAt];
  return name === undefined || !isKnown(name) ? undefined : name.text.slice(name.text.lastIndexOf("/") + 1);
}
