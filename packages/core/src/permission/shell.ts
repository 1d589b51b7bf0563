import {
  type Assignment,
  type Command,
  forEachChild,
  type ParsedScript,
  parse,
  type Redirect,
  type SyntaxNode,
} from "unbash";
import { UNKNOWN } from "./glob.ts";
import {
  isHarmlessForPrograms,
  isHarmlessForShell,
  isKnown,
  programOf,
  type ShellCommand,
  type ShellLine,
  type ShellWord,
  shellWord,
  unknownLine,
} from "./shell-command.ts";
import { describeCommand } from "./shell-runs.ts";

/** Longer lines need approval; it bounds the time to judge one. */
export const LINE_CHARS_MAX = 10_000;
/** Shorter lines are never slow. */
const SIMPLE_CHARS_MAX = 200;
/** Nesting characters; the parser reads their content again. */
const NESTING_SIGNS_MAX = 64;
const BRACES_MAX = 512;
const HEREDOCS_MAX = 16;
const SCRIPTS_DEPTH_MAX = 4;
const COMMANDS_MAX = 256;

/**
 * Everything a command line may run, as bash and sh parse it; `unknown` says where they differ or only the shell knows.
 * May list more than runs, never less.
 */
export function readShellLine(text: string, depth = 0): ShellLine {
  if (depth > SCRIPTS_DEPTH_MAX) return unknownLine("scripts are nested too deeply");
  if (text.length > LINE_CHARS_MAX) return unknownLine(`it is longer than ${LINE_CHARS_MAX} characters`);
  if (text.includes(UNKNOWN)) return unknownLine("part of it is unknown before it runs");
  const doubt = doubtIn(text);
  // An unparsed line may write anything.
  if (doubt !== undefined) return { ...unknownLine(doubt), writes: text.includes(">") ? [undefined] : [] };
  // The parser misses one at the very end.
  if (/\(\s*$/.test(text)) return unknownLine(INCOMPLETE);
  if (text.length > SIMPLE_CHARS_MAX && isTangled(text)) return unknownLine("it is too complicated to be read");
  try {
    return createReader((script) => readShellLine(script, depth + 1)).read(parse(text));
  } catch {
    // The parser overflows the stack on some hostile texts.
    return unknownLine("it cannot be read");
  }
}

const FOLDER = /(?:^|[\s;&|(`"'])(?:cd|pushd|popd)(?=\s|$)/;
const WRAPPED = /(?:^|[\s;&|(`"'])(?:command|builtin|eval)(?=\s|$)/;

/** Why a line is not parsed: forms that the parser or the program tables have got wrong. */
function doubtIn(text: string): string | undefined {
  if (text.split("${").slice(1).some(quotesWithin)) return "an expansion contains a quotation or a command";
  if (/\]\+?=/.test(text)) return ARITHMETIC;
  if (/(?:^|\s)['"]?-\S*[$`]/.test(text)) return "an expansion produces an option";
  if (/\$['"]?-|[$`"']-\S*[$`]/.test(text)) return "an expansion produces an option";
  if (/\beval\s+--|\benv\s+-(?:\s|$)|\s-c\s+--?(?:\s|$)|\bxargs\b.*--max-|\bxargs\b.*-I.*-I/s.test(text)) {
    return "an option in it is ambiguous";
  }
  return FOLDER.test(text) && WRAPPED.test(text) ? "it changes the folder in a way that cannot be followed" : undefined;
}

/** Whether something is quoted or run before the end of a `${`. */
function quotesWithin(rest: string): boolean {
  const end = rest.indexOf("}");
  return /['"`\\$(]/.test(end < 0 ? rest : rest.slice(0, end));
}

function isTangled(text: string): boolean {
  if (count(text, /[$<>]\(|`|\$\{/g) > NESTING_SIGNS_MAX || count(text, /[({]/g) > BRACES_MAX) return true;
  return count(text, /<</g) > HEREDOCS_MAX;
}

function count(text: string, signs: RegExp): number {
  return text.match(signs)?.length ?? 0;
}

/** Walks a parsed line and collects commands, writes and unknown parts. */
function createReader(readInner: (script: string) => ShellLine) {
  const commands: ShellCommand[] = [];
  const writes: (string | undefined)[] = [];
  let unknown: string | undefined;
  const isUndecidable = (why: string): void => {
    unknown ??= why;
  };

  const visit = (node: SyntaxNode): void => {
    const why = doubtOf(node);
    if (why !== undefined) isUndecidable(why);
    if (commands.length >= COMMANDS_MAX) {
      isUndecidable("it has too many commands");
      return;
    }
    if (node.type === "Command") commands.push(...commandsOf(node, readInner));
    if (node.type === "Redirect") noteRedirect(node);
    forEachChild(node, visit);
  };

  const noteRedirect = ({ operator, target }: Redirect): void => {
    const word: ShellWord = target === undefined ? { text: UNKNOWN } : shellWord(target);
    if (/^\/dev\/+(?:tcp|udp)\//.test(word.text)) isUndecidable("it opens a connection");
    if (operator === "<" || operator === "<&") return;
    if (operator === ">&" && isKnown(word) && /^(?:\d+-?|-)$/.test(word.text)) return;
    if (isKnown(word) && HARMLESS_FILE.test(word.text)) return;
    writes.push(isKnown(word) ? word.text : undefined);
  };

  return {
    read: (script: ParsedScript): ShellLine => {
      visit(script);
      const isMoved = commands.some((command) => /^(?:cd|pushd|popd)$/.test(programOf(command) ?? ""));
      // After `cd` a relative name is another file.
      const placed = writes.map((path) => (isMoved && path?.startsWith("/") === false ? undefined : path));
      return { commands, writes: placed, unknown };
    },
  };
}

const HARMLESS_FILE = /^\/dev\/(?:null|stdout|stderr|fd\/\d+)$/;

function commandsOf(command: Command, read: (script: string) => ShellLine): readonly ShellCommand[] {
  const assignments = command.prefix.filter((part) => part.type === "Assignment");
  if (command.name === undefined) {
    const unsafe = assignments.filter(({ name }) => !isHarmlessForShell(name));
    return unsafe.map((one) => describeCommand([assignedWord(one)], [], read));
  }
  const assigned = assignments.filter(({ name }) => !isHarmlessForPrograms(name)).map(assignedWord);
  const args = command.args.map((arg) => (arg.type === "Assignment" ? assignedWord(arg) : shellWord(arg)));
  return [describeCommand(assigned, [shellWord(command.name), ...args], read)];
}

/** A variable's value is never split into words. */
function assignedWord({ name, value, index, append }: Assignment): ShellWord {
  const place = index === undefined ? name : `${name}[${UNKNOWN}]`;
  const text = value.type === "Word" ? shellWord(value).text : UNKNOWN;
  return { text: `${place}${append === true ? "+" : ""}=${text}` };
}

const INCOMPLETE = "it is not complete, or not a command line";
const ARITHMETIC = "it computes with variables, whose values may run programs";
const DIALECT = "bash and sh read it differently";

/** Why a node cannot be judged by its commands; undefined if it can. */
function doubtOf(node: SyntaxNode): string | undefined {
  switch (node.type) {
    case "Script":
      return node.errors === undefined || node.errors.length === 0 ? undefined : INCOMPLETE;
    case "ArithmeticCommand":
    case "ArithmeticFor":
    case "Select":
    case "Coproc":
    case "ExtendedGlob":
    case "TestLogical":
    case "TestGroup":
      return DIALECT;
    case "HereDocDelimiter":
      // With a line break or `$'a'`, dash and bash end a here-document at different places.
      return /^(?:\\?[\w.+-]+|(['"])[\w .+-]+\1)$/.test(node.text) ? undefined : DIALECT;
    case "AnsiCQuoted":
      return node.text.includes("\\'") ? DIALECT : undefined;
    case "TestUnary":
      return /^-[vR]$/.test(node.operator) ? ARITHMETIC : undefined;
    case "TestBinary":
      if (/^-(?:eq|ne|lt|le|gt|ge)$/.test(node.operator)) return ARITHMETIC;
      return /^[<>]$/.test(node.operator) ? DIALECT : undefined;
    case "ArithmeticExpansion":
      return /^\$\(\([\d\s+\-*/%()<>=!&|^~?:,]*\)\)$/.test(node.text) ? undefined : ARITHMETIC;
    case "ParameterExpansion":
      return doubtOfParameter(node);
    case "CommandExpansion":
    case "ProcessSubstitution":
    case "ArithmeticCommandExpansion":
      return node.script === undefined ? "a substitution cannot be read" : undefined;
    case "For":
      return isHarmlessForShell(node.name.text) ? undefined : "it sets a variable that may decide what runs";
    case "FileDescriptorVariable":
      return "it sets a variable that may decide what runs";
    case "Assignment":
      return node.index === undefined ? undefined : ARITHMETIC;
    default:
      return KNOWN_NODES.has(node.type) ? undefined : "it contains unknown syntax";
  }
}

const INDEX = /^(?:@|\*|\d+)$/;
const NUMBER = /^\s*\d+\s*$/;

function doubtOfParameter({
  prefix,
  index,
  operation,
  parameter,
}: Extract<SyntaxNode, { type: "ParameterExpansion" }>): string | undefined {
  if (prefix === "!") return ARITHMETIC;
  if (index !== undefined && !INDEX.test(index.text)) return ARITHMETIC;
  switch (operation?.type) {
    case "Default":
      return operation.operator.includes("=") && !isHarmlessForShell(parameter)
        ? "it sets a variable that may decide what runs"
        : undefined;
    case "Slice": {
      const { offset, length } = operation;
      return NUMBER.test(offset.text) && (length === undefined || NUMBER.test(length.text)) ? undefined : ARITHMETIC;
    }
    case "Transform":
      return /^[QULu]$/.test(operation.operand.text) ? undefined : ARITHMETIC;
    case "Unknown":
      return "an expansion cannot be read";
    default:
      return undefined;
  }
}

/** Node types without doubt; types that a later parser adds are not among them. */
const KNOWN_NODES = new Set<SyntaxNode["type"]>([
  "Statement",
  "CompoundList",
  "CaseItem",
  "Elif",
  "Command",
  "If",
  "While",
  "Subshell",
  "BraceGroup",
  "Case",
  "TestCommand",
  "TestNot",
  "Redirected",
  "Function",
  "Pipeline",
  "Time",
  "Negation",
  "AndOr",
  "Word",
  "Literal",
  "Glob",
  "SingleQuoted",
  "DoubleQuoted",
  "LocaleString",
  "SimpleExpansion",
  "BraceExpansion",
  "ArrayValue",
  "Redirect",
  "HereString",
  "HereDoc",
  "FileDescriptor",
  "HereDocBody",
  "ArithmeticBinary",
  "ArithmeticUnary",
  "ArithmeticTernary",
  "ArithmeticGroup",
  "ArithmeticWord",
  "Default",
  "Remove",
  "Replace",
  "Slice",
  "CaseModification",
  "Transform",
  "Names",
]);
