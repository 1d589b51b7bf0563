import { Argument, type Command } from "commander";
import { describeHelp } from "../help.ts";
import type { Io } from "../io.ts";
import type { Invocation } from "../parts.ts";
import { oneLine } from "../plain-text.ts";
import { commandTree } from "./command-tree.ts";
import { type Candidate, type Completion, completeLine } from "./complete-line.ts";
import { projectValues } from "./project-values.ts";
import { SCRIPTS, SHELLS, type Shell } from "./shell-scripts.ts";

/** Declares `rkat completion`, and the call its scripts make. */
export function addCompletionCommand(program: Command, invocation: Invocation): void {
  const { io } = invocation;
  const command = program
    .command("completion")
    .summary("print the completion script of a shell")
    .description("Prints a script that completes commands, flags and their values, sessions, agents and models.")
    .addArgument(new Argument("<shell>").choices(SHELLS))
    .usage("bash|zsh|fish")
    .action((shell: Shell) => io.stdout.write(SCRIPTS[shell]));
  describeHelp(command, {
    examples: [
      ["source <(rkat completion bash)", "in ~/.bashrc"],
      ["source <(rkat completion zsh)", "in ~/.zshrc, after compinit"],
      ["rkat completion fish > ~/.config/fish/completions/rkat.fish", "once"],
    ],
    notes: [["How", "the script asks rkat which words may follow; it stays right when rkat is updated"]],
  });
  program
    .command(COMPLETE, { hidden: true })
    .argument("[words...]")
    .helpOption(false)
    .action(() => answerShell(program, invocation));
}

const COMPLETE = "__complete";
const MEANING_CHARS_MAX = 100;

/** Whoever presses Tab has typed half a command: whatever is wrong with it, nothing is said. */
async function answerShell(program: Command, invocation: Invocation): Promise<void> {
  const { io } = invocation;
  try {
    const { shell, words, current } = wordsOf(io.args);
    const completion = completeLine(commandTree(program), words, current);
    const values = await valuesFor(program, { ...invocation, io: silent(io) }, completion);
    // Bash replaces what follows the "=", the others the whole word.
    const prefix = shell === "bash" ? "" : (completion.prefix ?? "");
    const typed = shell === "bash" ? current.slice(completion.prefix?.length ?? 0) : current;
    for (const { value, description } of values) {
      // What no shell could take as a word is not offered.
      if (!`${prefix}${value}`.startsWith(typed) || oneLine(value, value.length + 1) !== value) continue;
      io.stdout.write(`${prefix}${value}\t${oneLine(description, MEANING_CHARS_MAX)}\n`);
    }
    const { kind } = completion;
    if (kind === "files" || kind === "folders") io.stdout.write(`:${kind}\n`);
  } catch {
    // No words are the answer.
  }
}

interface Typed {
  readonly shell: string | undefined;
  readonly words: readonly string[];
  readonly current: string;
}

function wordsOf(args: readonly string[]): Typed {
  const from = args.indexOf("--");
  const shell = args[args.indexOf(COMPLETE) + 1];
  const typed = args.slice(from + 1);
  // Bash breaks --flag=value into three words.
  const whole = shell === "bash" ? typed.filter((word, at) => word !== "=" || !typed[at - 1]?.startsWith("--")) : typed;
  return { shell, words: whole.slice(0, -1), current: whole.at(-1) ?? "" };
}

async function valuesFor(
  program: Command,
  invocation: Invocation,
  { candidates, kind, given }: Completion,
): Promise<readonly Candidate[]> {
  if (kind === undefined || kind === "files" || kind === "folders") return candidates;
  // The line may say where it will look: --realm, --state-root.
  for (const option of program.options) {
    const value = given.get(option.long ?? "");
    if (value !== undefined) program.setOptionValue(option.attributeName(), option.isBoolean() ? true : value);
  }
  return projectValues(invocation, kind);
}

function silent(io: Io): Io {
  return { ...io, stderr: { ...io.stderr, isTerminal: false, write: () => {} } };
}
