import type { Argument, Command, Option } from "commander";
import { type CommandRow, command, DEFAULT_COMMAND } from "../command-row.ts";
import { extrasOf, type HelpExtras } from "../help.ts";
import { ageOf, counted, type Io, oneLine } from "../io.ts";
import { createEmpty, isThere, loadHere, readConfiguration, withSessions } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { shortId } from "../session-selector.ts";

export const completionRows: readonly CommandRow[] = [
  command("completion SHELL", {
    text: "Print the completion script of a shell: it completes commands, flags and their values, sessions, agents and models.",
    needsAll: true,
    usage: "bash|zsh|fish",
    examples: [
      ["source <(rkat completion bash)", "in ~/.bashrc"],
      ["source <(rkat completion zsh)", "in ~/.zshrc, after compinit"],
      ["rkat completion fish > ~/.config/fish/completions/rkat.fish", "once"],
    ],
    notes: [["How", "the script asks rkat which words may follow; it stays right when rkat is updated"]],
    // The argument is one of these.
    run: ({ io, arg }) => io.stdout.write(SCRIPTS[arg("shell") as Shell]),
  }),
  command("__complete [WORDS…]", {
    text: "Answer the completion script of a shell.",
    isHidden: true,
    needsAll: true,
    run: ({ invocation, self }) => answerShell(self.parent ?? self, invocation),
  }),
];

const COMPLETE = "__complete";
const MEANING_CHARS_MAX = 100;

/** Answers an unfinished command line; errors in it are not reported. */
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
  return VALUES[kind](invocation);
}

function silent(io: Io): Io {
  return { ...io, stderr: { ...io.stderr, isTerminal: false, write: () => {} } };
}

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

/**
 * What a shell sources. Each script asks `rkat __complete` for the words that may follow, so that it never knows less
 * than the rkat it completes: a line is a word, a tab and what it means; `:files` and `:folders` are left to the shell.
 */
export const SCRIPTS: Readonly<Record<Shell, string>> = { bash: bashScript(), zsh: zshScript(), fish: fishScript() };

function bashScript(): string {
  return `# Completion of rkat for bash. For every shell to come:
#   echo 'source <(rkat completion bash)' >> ~/.bashrc
# or, where bash-completion is installed, which loads it when it is first needed:
#   mkdir -p ~/.local/share/bash-completion/completions
#   rkat completion bash > ~/.local/share/bash-completion/completions/rkat

_rkat() {
  local current=$2 line value width=0 kind=
  local -a values=() meanings=()
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :*) kind=\${line#:} ;;
      *)
        value=\${line%%$'\\t'*}
        [[ $value == "$current"* ]] || continue
        values+=("$value")
        meanings+=("\${line#*$'\\t'}")
        (( \${#value} > width )) && width=\${#value}
        ;;
    esac
  done < <("$1" __complete bash -- "\${COMP_WORDS[@]:1:COMP_CWORD-1}" "$current" 2>/dev/null)
  case $kind in
    files | folders)
      compopt -o filenames 2>/dev/null
      local flag=-f
      [[ $kind == folders ]] && flag=-d
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen "$flag" -- "$current")
      return
      ;;
  esac
  # What words mean is only shown where they are listed; elsewhere it would be typed.
  if (( \${#values[@]} > 1 )) && [[ $COMP_TYPE == 63 || $COMP_TYPE == 33 || $COMP_TYPE == 64 ]]; then
    local index room=$(( \${COLUMNS:-80} - width - 5 ))
    for index in "\${!values[@]}"; do
      if [[ -n \${meanings[index]} ]] && (( room > 8 )); then
        printf -v line '%-*s  (%s)' "$width" "\${values[index]}" "\${meanings[index]:0:room}"
      else
        line=\${values[index]}
      fi
      COMPREPLY+=("$line")
    done
  else
    COMPREPLY=("\${values[@]}")
  fi
}

# Bash before 4.4 sorts by itself.
complete -o nosort -F _rkat rkat 2>/dev/null || complete -F _rkat rkat
`;
}

function zshScript(): string {
  return `#compdef rkat
# Completion of rkat for zsh. For every shell to come, after compinit:
#   echo 'source <(rkat completion zsh)' >> ~/.zshrc
# or, into a folder of $fpath, which loads it when it is first needed:
#   rkat completion zsh > "\${fpath[1]}/_rkat"

_rkat() {
  local line kind value meaning
  local -a described
  while IFS= read -r line; do
    case $line in
      :*) kind=\${line#:} ;;
      *)
        value=\${\${line%%$'\\t'*}//:/\\\\:}
        meaning=\${line#*$'\\t'}
        described+=("$value\${meaning:+:$meaning}")
        ;;
    esac
  done < <("\${words[1]}" __complete zsh -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  case $kind in
    files) compset -P '--*='; _files ;;
    folders) compset -P '--*='; _files -/ ;;
    *) (( \${#described} )) && _describe -V rkat described ;;
  esac
}

if [[ \${funcstack[1]} == _rkat ]]; then
  _rkat "$@"
else
  compdef _rkat rkat
fi
`;
}

function fishScript(): string {
  return `# Completion of rkat for fish. For every shell to come:
#   rkat completion fish > ~/.config/fish/completions/rkat.fish

function __rkat_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    for line in ($program __complete fish -- $words "$current" 2>/dev/null)
        switch $line
            case ':files'
                __fish_complete_path $current
            case ':folders'
                __fish_complete_directories $current
            case '*'
                printf '%s\\n' $line
        end
    end
end

complete -c rkat -f -k -a '(__rkat_complete)'
`;
}

const SESSIONS_MAX = 30;
const TITLE_CHARS_MAX = 60;

/** Where nothing was kept yet nothing is loaded to find that out. */
async function ifKept(
  invocation: Invocation,
  read: (invocation: Invocation) => Promise<readonly Candidate[]>,
): Promise<readonly Candidate[]> {
  if (await isThere(invocation.place().stateFolder)) return read(invocation);
  const { config } = await loadHere(invocation);
  return config.store.url === undefined ? [] : read(invocation);
}

async function sessions(invocation: Invocation): Promise<readonly Candidate[]> {
  return withSessions(invocation, async ({ runtime }) => {
    const { sessions } = await runtime.dispatch("listSessions", { limit: SESSIONS_MAX });
    const now = Date.now();
    const short = sessions.map(({ session_id }) => shortId(session_id));
    const named = sessions.map(({ session_id, title, updated_at }, index) => {
      const begin = short[index] ?? session_id;
      const isAlone = short.indexOf(begin) === short.lastIndexOf(begin);
      const description = `${ageOf(updated_at, now)}: ${oneLine(title, TITLE_CHARS_MAX)}`;
      return { value: isAlone ? begin : session_id, description };
    });
    const [newest] = named;
    // In other words than those of its id: zsh shows words of one meaning as one.
    return newest === undefined ? [] : [{ value: "last", description: `the newest, ${newest.description}` }, ...named];
  });
}

async function agents(invocation: Invocation): Promise<readonly Candidate[]> {
  return withSessions(invocation, async ({ runtime }) => {
    const { agents } = await runtime.dispatch("listAgents", {});
    return agents.map(({ agent, count }) => ({ value: agent, description: counted(count, "memory") }));
  });
}

async function models(invocation: Invocation): Promise<readonly Candidate[]> {
  const { providers } = await catalogOf(invocation);
  return providers.flatMap(({ provider, models }) =>
    models.map(({ id, display_name }) => ({ value: id, description: `${display_name}, ${provider}` })),
  );
}

async function providers(invocation: Invocation): Promise<readonly Candidate[]> {
  const { providers } = await catalogOf(invocation);
  return providers.map(({ provider, models }) => ({ value: provider, description: counted(models.length, "model") }));
}

async function catalogOf(invocation: Invocation) {
  const { config } = await readConfiguration(invocation);
  const runtime = await createEmpty(invocation, config);
  try {
    return await runtime.dispatch("readModels", {});
  } finally {
    await runtime.close();
  }
}

interface Candidate {
  readonly value: string;
  readonly description: string;
}

/** The values of a kind that there are in the project. */
const VALUES: Readonly<
  Record<Exclude<ValueKind, "files" | "folders">, (invocation: Invocation) => Promise<readonly Candidate[]>>
> = {
  sessions: (invocation) => ifKept(invocation, sessions),
  agents: (invocation) => ifKept(invocation, agents),
  models,
  providers,
};

/** The kinds of values that are looked up in the project; the shell itself completes `files` and `folders`. */
type ValueKind = "sessions" | "agents" | "models" | "providers" | "files" | "folders";

/** The completions at the cursor: these words, and the values of this kind. */
interface Completion {
  readonly candidates: readonly Candidate[];
  readonly kind?: ValueKind;
  /** What a value is written after: `--output=`. */
  readonly prefix?: string;
  /** The flags with values that stand before the cursor. */
  readonly given: ReadonlyMap<string, string>;
}

/** The completions after these words, where `current` is the unfinished word. */
function completeLine(root: CommandEntry, words: readonly string[], current: string): Completion {
  const at = walk(root, words);
  const { command, given } = at;
  if (at.awaited !== undefined && !(at.awaited.isValueOptional && current.startsWith("-"))) {
    return { ...valuesOf(at.awaited, at.awaited.long), given };
  }
  if (current.startsWith("-") && !at.isLiteral) {
    const [long = "", value] = current.split("=", 2);
    const option = value === undefined ? undefined : optionNamed(at.options, long);
    if (option?.value !== undefined) return { ...valuesOf(option, option.long), prefix: `${long}=`, given };
    return { candidates: flagsLeft(at), given };
  }
  const isHelp = command.arguments[0]?.name === "command";
  const holder = isHelp ? heldBy(root, at.operands) : command;
  if (at.operands.length === 0 || isHelp) {
    if (holder.commands.length > 0) return { candidates: holder.commands.map(commandCandidate), given };
  }
  const argument = command.arguments[at.operands.length] ?? command.arguments.find(({ isVariadic }) => isVariadic);
  if (argument === undefined || isHelp) return { candidates: [], given };
  return { ...valuesOf({ value: argument.name, choices: argument.choices }, `<${argument.name}>`), given };
}

interface Position {
  readonly command: CommandEntry;
  /** What may be written at the cursor: the flags of the command and those of every command. */
  readonly options: readonly OptionEntry[];
  readonly operands: readonly string[];
  readonly given: ReadonlyMap<string, string>;
  /** The flag whose value is written at the cursor. */
  readonly awaited: OptionEntry | undefined;
  /** After `--` nothing is a flag. */
  readonly isLiteral: boolean;
}

/** Reads the words as the parser will. */
function walk(root: CommandEntry, words: readonly string[]): Position {
  const fallback = root.commands.find(({ path }) => path.at(-1) === DEFAULT_COMMAND);
  const optionsOf = (command: CommandEntry): readonly OptionEntry[] =>
    command === root
      ? [...(fallback?.options ?? []), ...shared(root, fallback)]
      : [...command.options, ...shared(root, command)];
  const given = new Map<string, string>();
  let command = root;
  let operands: readonly string[] = [];
  let awaited: OptionEntry | undefined;
  let isLiteral = false;
  for (const word of words) {
    if (awaited !== undefined && !(awaited.isValueOptional && word.startsWith("-"))) {
      given.set(awaited.long, word);
      awaited = undefined;
    } else if (!isLiteral && word === "--") {
      isLiteral = true;
    } else if (!isLiteral && word.startsWith("-")) {
      const { option, value } = readFlag(optionsOf(command), word);
      awaited = option?.value !== undefined && value === undefined ? option : undefined;
      if (option !== undefined) given.set(option.long, value ?? "");
    } else {
      const inner = operands.length === 0 ? commandNamed(command, word) : undefined;
      // A first word that is no command begins a prompt.
      if (inner !== undefined) command = inner;
      else operands = [...operands, word];
      if (inner === undefined && command === root) command = fallback ?? root;
    }
  }
  return { command, options: optionsOf(command), operands, given, awaited, isLiteral };
}

/** The flags that every command takes besides its own. */
function shared(root: CommandEntry, command: CommandEntry | undefined): readonly OptionEntry[] {
  const names = new Set(command?.options.map(({ long }) => long));
  return root.options.filter(({ long }) => !names.has(long));
}

/** `--output=json`, `-ojson`, `--output` and `-o` are the same flag, with and without its value. */
function readFlag(
  options: readonly OptionEntry[],
  word: string,
): { readonly option: OptionEntry | undefined; readonly value: string | undefined } {
  if (word.startsWith("--")) {
    const at = word.indexOf("=");
    if (at < 0) return { option: optionNamed(options, word), value: undefined };
    return { option: optionNamed(options, word.slice(0, at)), value: word.slice(at + 1) };
  }
  return { option: optionNamed(options, word.slice(0, 2)), value: word.length > 2 ? word.slice(2) : undefined };
}

function optionNamed(options: readonly OptionEntry[], name: string): OptionEntry | undefined {
  return options.find(({ long, short }) => long === name || short === name);
}

function commandNamed({ commands }: CommandEntry, word: string): CommandEntry | undefined {
  return commands.find(({ path, aliases }) => path.at(-1) === word || aliases.includes(word));
}

/** The command that words name from the root on; the root where they name none. */
function heldBy(root: CommandEntry, words: readonly string[]): CommandEntry {
  const none: CommandEntry = { ...root, commands: [] };
  return words.reduce((command, word) => commandNamed(command, word) ?? none, root);
}

function flagsLeft({ options, given }: Position): readonly Candidate[] {
  return options
    .filter(({ long, isRepeated }) => isRepeated || !given.has(long))
    .map(({ long, description }) => ({ value: long, description }));
}

function commandCandidate({ path, summary, description }: CommandEntry): Candidate {
  return { value: path.at(-1) ?? "", description: summary || description };
}

/** By what a value is called, or else by the flag it belongs to. */
const KINDS: ReadonlyMap<string, ValueKind> = new Map([
  ["session", "sessions"],
  // Arguments, which stand in no flag: what commands about agents call their first.
  ["<name>", "agents"],
  ["--agent", "agents"],
  ["--model", "models"],
  ["--provider", "providers"],
  ["folder", "folders"],
  ["path", "folders"],
  ["file", "files"],
  ["file|json", "files"],
]);

function valuesOf(
  { value = "", choices }: Pick<OptionEntry, "value" | "choices">,
  owner: string,
): Pick<Completion, "candidates" | "kind"> {
  if (choices.length > 0) return { candidates: choices.map((choice) => ({ value: choice, description: "" })) };
  const kind = KINDS.get(value) ?? KINDS.get(owner);
  return kind === undefined ? { candidates: [] } : { candidates: [], kind };
}

export interface CommandEntry {
  readonly description: string;
  /** What follows its words: `SESSION [options]`. */
  readonly usage: string;
  readonly options: readonly OptionEntry[];
  readonly extras: Required<HelpExtras>;
  /** Its words: `["rkat", "session", "list"]`. */
  readonly path: readonly string[];
  readonly aliases: readonly string[];
  readonly summary: string;
  readonly arguments: readonly ArgumentEntry[];
  readonly commands: readonly CommandEntry[];
}

export interface OptionEntry {
  readonly short: string | undefined;
  readonly long: string;
  /** What its value is called; undefined where it takes none. */
  readonly value: string | undefined;
  readonly isValueOptional: boolean;
  readonly isRepeated: boolean;
  readonly description: string;
  readonly choices: readonly string[];
  /** What holds without it, where that is one value. */
  readonly fallback: string | undefined;
}

interface ArgumentEntry {
  readonly name: string;
  readonly isVariadic: boolean;
  readonly choices: readonly string[];
}

/** A command with all it holds; what is hidden from help is left out. */
export function commandTree(command: Command, before: readonly string[] = []): CommandEntry {
  const help = command.createHelp();
  const path = [...before, command.name()];
  const held = help.visibleCommands(command).map((inner) => commandTree(inner, path));
  return {
    path,
    aliases: command.aliases(),
    summary: command.summary(),
    arguments: held.length > 0 ? [] : command.registeredArguments.map(argumentEntry),
    commands: held,
    description: command.description() || command.summary(),
    usage: command.usage(),
    options: help.visibleOptions(command).map(optionEntry),
    extras: extrasOf(command),
  };
}

function argumentEntry(argument: Argument): ArgumentEntry {
  return { name: argument.name(), isVariadic: argument.variadic, choices: argument.argChoices ?? [] };
}

function optionEntry(option: Option): OptionEntry {
  const { short, long, flags, defaultValue } = option;
  const isPlain = typeof defaultValue === "string" || typeof defaultValue === "number";
  return {
    short,
    long: long ?? short ?? flags,
    value: /[<[]([^<[>\]]+)[>\]]/.exec(flags)?.[1],
    isValueOptional: option.optional,
    isRepeated: Array.isArray(defaultValue),
    description: option.description,
    choices: option.argChoices ?? [],
    fallback: isPlain ? String(defaultValue) : undefined,
  };
}
