/** Variables that change how programs speak, and not what they do or start. */
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

/** Variables by which whoever sets them chooses what a program, or the shell, starts. */
const STEERING =
  /^(?:PATH|ENV|BASH_ENV|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|EDITOR|VISUAL|PAGER|BROWSER|SHELL|MAKEFLAGS|NODE_OPTIONS|RUBYOPT|CDPATH|(?:LD|DYLD|GIT|PYTHON|PERL5?|JAVA|JDK|npm_config)_.*|PYTHON[A-Z]+|PERL5[A-Z]+|[A-Z_]+_(?:PAGER|EDITOR|WRAPPER))$/;

/** Whether a word is such a variable with its value, or could be. */
export function isSteering(assigned: string): boolean {
  return STEERING.test(/^\w*/.exec(assigned)?.[0] ?? "");
}

/** Variables that name a program, or a place that programs and libraries are loaded from or configured in. */
const LOADING =
  /^(?:HOME|XDG_CONFIG_HOME|ZDOTDIR|CC|CXX|LESSOPEN|LESSCLOSE|MANPAGER|CLASSPATH|GCONV_PATH|RUBYLIB|NODE_PATH|RUSTC|RUSTFLAGS|GO(?:ROOT|PATH|BIN|FLAGS|ENV)|(?:CARGO|RUSTC|DOTNET|BUNDLE|GEM|LUA|PHP)_[A-Z_]+|\w+_(?:ASKPASS|COMMAND|RSH|SSH))$/;

/** Whether a command's variable decides which program runs. */
export function decidesProgram(name: string): boolean {
  return isSteering(name) || LOADING.test(name);
}

/** Whether a program that is given this variable does the same as without it: `PATH=. git` runs another git. */
export function isHarmlessForPrograms(name: string): boolean {
  return HARMLESS.has(name) || /^LC_[A-Z]+$/.test(name);
}

/** The same for the shell's own variables. Programs are told by capitals, but for these, which may be exported already. */
export function isHarmlessForShell(name: string): boolean {
  if (isHarmlessForPrograms(name)) return true;
  return /^[a-z][a-z0-9_]*$/.test(name) && !/^(?:npm|yarn|pip|git|make|cargo)_|_proxy$/.test(name);
}
