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
