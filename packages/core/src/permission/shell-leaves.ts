import { type Item, UNKNOWN } from "./glob.ts";
import { isKnown, type ShellCommand, type ShellWord } from "./shell-command.ts";

export const LOOKS =
  /^(?:ls|cat|head|tail|wc|grep|rg|echo|pwd|which|whoami|date|stat|file|du|df|diff|sort|uniq|tree|jq|basename|dirname|realpath)$/;

/** Programs whose first argument determines what they do, so that the rest may vary. */
export const HAS_SUBCOMMANDS =
  /^(?:git|gh|npm|pnpm|yarn|bun|deno|cargo|go|docker|podman|kubectl|helm|terraform|pip|pip3|uv|poetry|brew|apt|systemctl|dotnet|mvn|gradle|make|just)$/;

const LEAVES =
  /^(?:egrep|fgrep|printf|true|false|test|\[|:|mkdir|rmdir|touch|cp|mv|rm|ln|chmod|chown|chgrp|cmp|cut|tr|tee|readlink|id|groups|uname|hostname|sleep|seq|yes|type|md5sum|sha1sum|sha256sum|sha512sum|cksum|base64|od|xxd|hexdump|strings|nl|tac|rev|comm|join|paste|fold|fmt|column|expand|expr|ps|kill|pgrep|pkill|pidof|free|uptime|curl|cd|pushd|popd|dirs|jobs|umask|truncate|mktemp|gzip|gunzip|zcat|unzip|dd|df|exit|return)$/;

/** Programs that start no other one unless a word matches this. */
const LEAVES_BUT_FOR = new Map([
  ["sort", /^--c/],
  ["rg", /^--(?:pre|host)/],
  ["man", /^-/],
  ["less", /^[-+]/],
]);

const GIT_LEAVES =
  /^(?:add|blame|branch|checkout|cherry-pick|clean|commit|describe|diff|fetch|grep|help|init|log|ls-files|merge|mv|pull|push|rebase|reset|restore|revert|rev-parse|rm|show|stash|status|switch|tag|worktree)$/;
/** `rebase -x`, `grep -O`, `push --exec`, `fetch --upload-pack`, also abbreviated. */
const GIT_STARTS = /^-(?:[a-zA-Z]*[xO]|-(?:e|u|rece|op))/;

const SED_OPTION = /^(?:-[nrEsuz]+|-i(?:\.\w+)?|-e)$/;
/** One or two addresses with a command that starts nothing, or one substitution; `e` runs its argument. */
const SED_SCRIPT =
  /^(?:(?:\d+|\$|\/[^/\\\n]*\/)(?:,(?:\d+|\$|\/[^/\\\n]*\/))?!?)?(?:[pdq=]|s([/|#,])(?:(?!\1)[^\\\n]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gpiI\d]*)$/;

function isSafeSed(words: readonly ShellWord[]): boolean {
  const args = words.slice(1).map(({ text }) => text);
  const given = args.filter((_, at) => args[at - 1] === "-e");
  const operands = args.filter((text, at) => args[at - 1] !== "-e" && !SED_OPTION.test(text));
  const scripts = given.length === 0 ? operands.slice(0, 1) : given;
  return (
    scripts.every((text) => SED_SCRIPT.test(text) && !text.includes(UNKNOWN)) &&
    !operands.some((text) => text.startsWith("-"))
  );
}

/** Whether a command is known to start no other program. Both lists begin with its name. */
export function isLeaf(words: readonly ShellWord[], bare: readonly ShellWord[]): boolean {
  const [name, sub, ...rest] = bare;
  // An unknown word may be an option, unless it is the value of one.
  const mayBeAny = ({ text, isMany }: ShellWord, at: number): boolean =>
    isMany === true || (text.startsWith(UNKNOWN) && words[at]?.text.startsWith("-") !== true);
  const program = name?.text.replace(/^\/(?:usr\/)?bin\//, "") ?? "";
  const butFor = LEAVES_BUT_FOR.get(program);
  if (butFor !== undefined) return !words.slice(1).some((word, at) => mayBeAny(word, at) || butFor.test(word.text));
  if (program === "git") {
    // `-c` may set a program.
    const options = words.slice(1, words.length - bare.length + 1);
    if (options.some(({ text }) => /^-(?:[a-zA-Z]*c|-exec)/.test(text))) return false;
    if (words.slice(1).some(mayBeAny)) return false;
    return GIT_LEAVES.test(sub?.text ?? "") && !rest.some(({ text }) => GIT_STARTS.test(text));
  }
  if (program === "sed") return isSafeSed(words);
  return LOOKS.test(program) || LEAVES.test(program);
}

const INTERPRETER = /^(?:perl|python[\d.]*|node|deno|bun|ruby|php|lua|tclsh|ed|ex|psql|sqlite3|mysql|gdb|[gmn]?awk)$/;

/** Whether the rest of the line may tell a command what to start: by an expansion, or by a script on its input. */
export function isDecidedByLine({ words, nameAt, isLeaf: startsNone }: ShellCommand): boolean {
  if (startsNone) return false;
  const [name, ...args] = words.slice(nameAt);
  if (!words.every(isKnown)) return true;
  if (args.some(({ text }) => /^(?:-|\/dev\/(?:stdin|fd\/\d+)|\/proc\/.*)$/.test(text))) return true;
  return INTERPRETER.test(name?.text ?? "") && args.every(({ text }) => text.startsWith("-"));
}

/** Possible program names in texts, in order; in a script, quotes may end a name or be inside it. */
export function namesIn(texts: readonly string[]): readonly Item[] {
  const read = texts.flatMap((text) => [text.replaceAll(/['"\\]/g, " "), text.replaceAll(/['"\\]/g, "")]);
  return read.flatMap((text) =>
    [...text.toLowerCase().matchAll(/[\p{L}\p{N}_./-]+\+*/gu)].flatMap(([token]) => {
      const [, attached = token] = /^(?:-|\d+)[a-z](.+)$/.exec(token) ?? [];
      return [...new Set([token, attached])].map((name) => ({
        text: name.split("/").findLast((part) => part !== "") ?? "",
      }));
    }),
  );
}

/** Texts that may name a program to start: variables, and arguments and `further` unless it starts none. */
export function tellingTexts(
  { words, nameAt, isLeaf: startsNone }: ShellCommand,
  further: readonly string[],
): readonly string[] {
  const assigned = words.slice(0, nameAt);
  const [name, sub, ...rest] = words.slice(nameAt);
  if (startsNone || name === undefined) return assigned.map(({ text }) => text);
  const isSubcommand = HAS_SUBCOMMANDS.test(name.text) && /^[a-z][a-z0-9:-]*$/.test(sub?.text ?? "");
  const args = isSubcommand || sub === undefined ? rest : [sub, ...rest];
  const texts = [...[...assigned, ...args].map(({ text }) => text), ...further];
  // `1eevil` and `s/x/evil/e` of sed run evil.
  const signs = name.text.endsWith("sed") ? [/(?<![a-z])e/g, /\//g] : [];
  return [...texts, ...signs.flatMap((sign) => texts.map((text) => text.replaceAll(sign, " ")))];
}
