import type { Command } from "commander";
import { type CommandRow, command } from "../command-row.ts";
import { ageOf, counted, type Io, oneLine } from "../io.ts";
import { createEmpty, isThere, loadHere, readConfiguration, withSessions } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { shortId } from "../session-selector.ts";
import { type Candidate, type Completion, commandTree, completeLine, type ValueKind } from "./complete-line.ts";

/** `rkat completion`, and the call its scripts make. */
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
  return projectValues(invocation, kind);
}

function silent(io: Io): Io {
  return { ...io, stderr: { ...io.stderr, isTerminal: false, write: () => {} } };
}

/** The shells that a script is written for. */
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

/** The most values that are offered. */
const SESSIONS_MAX = 30;
const TITLE_CHARS_MAX = 60;

/** The values of a kind that there are in the project. */
async function projectValues(
  invocation: Invocation,
  kind: Exclude<ValueKind, "files" | "folders">,
): Promise<readonly Candidate[]> {
  switch (kind) {
    case "sessions":
      return ifKept(invocation, sessions);
    case "agents":
      return ifKept(invocation, agents);
    case "models":
      return models(invocation);
    case "providers":
      return providers(invocation);
  }
}

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
