import { type WrittenField, writtenFields } from "../../contract/input/field-words.ts";
import { OPERATIONS, type OperationName } from "../../contract/operations.ts";
import { type Fields, isFields } from "./driver.ts";

/** What makes a command answer as the table does, where that is not `--json`. */
const ANSWERS: Readonly<Partial<Record<OperationName, readonly string[]>>> = {
  createSession: ["--events", "--stdin=off"],
  startTurn: ["--events", "--stdin=off"],
  resumeSession: ["--events", "--stdin=off"],
  readBlob: [],
  readConfig: ["--json", "--with-generation"],
  setConfig: [],
  patchConfig: [],
};

/** There is one kind of event, and a session that is named is the scope of a search. */
const IMPLIED: readonly string[] = ["kind", "scope"];

/** An operation's input as the words of the command line (contract §7, §15), as its fields say they are written. */
export function wordsOf(operation: OperationName, input: Fields): readonly string[] {
  const { cli, input: schema } = OPERATIONS[operation];
  const fields = writtenFields(schema);
  const known = [...IMPLIED, ...fields.map(({ path: [field] }) => field)];
  const stray = Object.keys(input).find((field) => input[field] !== undefined && !known.includes(field));
  if (stray !== undefined) throw new Error(`the command line has no flag for ${stray} of ${operation}`);
  const flags = fields.flatMap((field) => flagWords(field, valueAt(input, field.path)));
  const argument = (name: string): string | undefined => {
    const given = fields.filter(({ word }) => word === name).map(({ path }) => valueAt(input, path));
    const value = given.find((one) => one !== undefined);
    return value === undefined ? undefined : text(value, name);
  };
  // What follows a flag of a field in the row is an example of its value.
  const words = cli
    .replaceAll(/ --[\w-]+ [A-Z]+/g, "")
    .split(" ")
    .slice(1);
  const command = words.filter((word) => !ARGUMENT.test(word)).map((word) => word.replace("=ID", `=${argument("ID")}`));
  const places = words.filter((word) => ARGUMENT.test(word)).map(argument);
  const given = places.filter((one) => one !== undefined);
  const dashes = given.length === 0 ? [] : ["--"];
  return [...command, ...(ANSWERS[operation] ?? ["--json"]), ...flags, ...dashes, ...given];
}

/** An argument's name, in brackets where it may be left out. */
const ARGUMENT = /^\[?[A-Z]+\]?$/;

function flagWords({ word }: WrittenField, value: unknown): readonly string[] {
  const [name] = /--[\w-]+/.exec(word) ?? [];
  if (name === undefined || value === undefined) return [];
  if (!word.includes("<")) return value === true ? [name] : [];
  const isPairs = word.endsWith("<key=value>") && isFields(value);
  const values = isPairs ? Object.entries(value).map((pair) => pair.join("=")) : listOf(value, word);
  return values.map((one) => `${name}=${text(one, word)}`);
}

function listOf(value: unknown, word: string): readonly unknown[] {
  return Array.isArray(value) && !word.endsWith("<json>") ? value : [value];
}

function valueAt(input: Fields, path: readonly string[]): unknown {
  return path.reduce<unknown>((value, field) => (isFields(value) ? value[field] : undefined), input);
}

function text(value: unknown, word: string): string {
  return typeof value === "object" || /json>$|JSON/.test(word) ? JSON.stringify(value) : String(value);
}
