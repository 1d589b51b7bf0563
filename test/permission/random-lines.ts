type Random = () => number;

/** Programs of generated lines: stubs that only note that they ran. */
const PROGRAMS = ["git", "rm", "ls", "head", "npm"];

/** A command line made of everything that hides a program from a careless reader, without anything that does harm. */
export function randomLine(random: Random, depth = 2): string {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T; // No list here is empty.
  const line = (left: number): string => {
    const shapes = left <= 0 ? [simple] : [simple, simple, ...COMPOUND];
    const parts = Array.from({ length: 1 + Math.floor(random() * 2) }, () => pick(shapes)(left - 1));
    return parts.reduce((text, part) => `${text}${pick(SEPARATORS)}${part}`);
  };
  const simple = (left: number): string => {
    const words = Array.from({ length: Math.floor(random() * 3) }, () => word(left));
    const given = left > 0 && random() < 0.1 ? `a=$(${line(left - 1)})` : pick(["", "", "", "A=b", "a='x y'", "<f"]);
    return [given, `${wrapper(left)}${name()}`, ...words].join(" ");
  };
  const name = (): string => {
    const program = pick(PROGRAMS);
    const [head, tail] = [program.slice(0, 1), program.slice(1)];
    return pick([
      program,
      program,
      program,
      `\\${program}`,
      `'${program}'`,
      `"${program}"`,
      `${head}''${tail}`,
      `${head}\\\n${tail}`,
      `$'${program}'`,
      `{${program},x}`,
      `$(echo ${program})`,
    ]);
  };
  const wrapper = (left: number): string =>
    left <= 0
      ? ""
      : pick([
          "",
          "",
          "",
          "",
          "env ",
          "env -u A B=c ",
          "nice -n 1 ",
          "nohup ",
          "timeout 5 ",
          "command ",
          "exec ",
          "time ",
          "! ",
          "eval ",
          "xargs ",
          "sudo -n ",
        ]);
  const word = (left: number): string => {
    const texts = [
      "x",
      "-a",
      "'a b'",
      '"a b"',
      "a\\ b",
      "\\;",
      "'#'",
      "x#y",
      "\\\n",
      "*",
      "{a,b}",
      "$HOME",
      '"$HOME"',
      "$'\\n'",
      "''",
      "> out",
      "2>&1",
      `\${a:-b}`,
      "'$(rm)'",
      "\\$\\(rm\\)",
      '"\'"',
      "'\"'",
      "$((1 + 2))",
      "a=~",
      "[a]",
      "}",
      "done",
    ];
    const nested = [
      () => `$(${line(left - 1)})`,
      () => `"$(${line(left - 1)})"`,
      () => `"\${a:-$(${line(left - 1)})}"`,
      () => `\`${pick(PROGRAMS)} x\``,
      () => `"\`${pick(PROGRAMS)} x\`"`,
      () => `<(${line(left - 1)})`,
      () => `> >(${line(left - 1)})`,
      () => `<<< "$(${line(left - 1)})"`,
    ];
    return left <= 0 || random() < 0.6 ? pick(texts) : pick(nested)();
  };
  const COMPOUND: readonly ((left: number) => string)[] = [
    (left) => `(${line(left)})`,
    (left) => `{ ${line(left)}\n}`,
    (left) => `if ${line(left)}\nthen ${line(left)}\nelse ${line(left)}\nfi`,
    (left) => `for a in 1 $(${line(left)}); do ${line(left)}\ndone`,
    (left) => `while ${line(left)}\ndo break; done`,
    (left) => `case x in (y) ls;; x) ${line(left)}\n;; esac`,
    (left) => `f() { ${line(left)}\n}; f`,
    (left) => `! ${simple(left)}`,
    (left) => `${simple(left)} # ; ls 'x\n${simple(left)}`,
    (left) => `head <<EOF\n$(${line(left)})\n'\nEOF\n${simple(left)}`,
    (left) => `head <<'EOF'\n$(rm x)\nEOF\n${simple(left)}`,
    (left) => `bash -c '${line(left).replaceAll("'", "'\\''")}'`,
    (left) => `sh -c "${line(left).replaceAll(/["\\$`]/g, "\\$&")}"`,
    (left) => `eval '${line(left).replaceAll("'", "'\\''")}'`,
    (left) => `[ -n "$(${line(left)})" ]`,
    (left) => `[[ -n $(${line(left)}) ]]`,
    () => `find . -name f -exec ${pick(PROGRAMS)} {} \\;`,
    (left) => `trap '${pick(PROGRAMS)} x' EXIT; ${simple(left)}`,
  ];
  const SEPARATORS = ["; ", " && ", " || ", " | ", "\n", " & ", ";", "\n\n  ", " |& ", " && \\\n", " #c\n"];
  return line(depth);
}

const SIGNS = "'\"\\`$(){};&|<>\n #!=*?[]~,:-@";

/** The line with a few signs put in or taken out: mostly nonsense, which shells read in ways of their own. */
export function damagedLine(line: string, random: Random): string {
  // A loop or a function that lost its end might never end.
  if (/while|until|f\(\)/.test(line)) return line;
  const edits = 1 + Math.floor(random() * 3);
  return Array.from({ length: edits }).reduce<string>((text) => {
    const at = Math.floor(random() * (text.length + 1));
    const sign = SIGNS.charAt(Math.floor(random() * SIGNS.length));
    return random() < 0.4 ? text.slice(0, at) + text.slice(at + 1) : text.slice(0, at) + sign + text.slice(at);
  }, line);
}
