import { readdirSync } from "node:fs";
import { join } from "node:path";
import { ERRORS } from "@rkat/core/contract/error";
import { AgentEvent } from "@rkat/core/contract/event";
import { OPERATIONS } from "@rkat/core/contract/operations";
import { CONTRACT_VERSION } from "@rkat/core/contract/wire/version";
import { z } from "zod";
import {
  createPythonTypes,
  docstring,
  isAnything,
  type PythonTypes,
  pascal,
  python,
  type Schema,
  schemaOf,
  spread,
} from "./python-types.ts";

interface Operation {
  readonly summary: string;
  readonly input: z.ZodType;
  readonly output: z.ZodType;
  readonly rpc: string;
  readonly method?: string;
  readonly http: string;
}

const FOLDER = "sdks/python/rkat/contract";
const CONTRACT = join(import.meta.dirname, "../packages/core/src/contract");
const ROWS: readonly (readonly [string, Operation])[] = Object.entries(OPERATIONS);

/** The generated files of the Python client, by their path in the project. */
export async function generatePython(): Promise<Readonly<Record<string, string>>> {
  const contract = await contractSchemas();
  const options = createPythonTypes("input", contract);
  const results = createPythonTypes("output", contract);
  const methods = methodsFile(options, results);
  return {
    [`${FOLDER}/operations.py`]: operationsFile(),
    [`${FOLDER}/errors.py`]: errorsFile(),
    [`${FOLDER}/events.py`]: eventsFile(),
    [`${FOLDER}/methods.py`]: methods,
    [`${FOLDER}/options.py`]: optionsFile(options),
    [`${FOLDER}/results.py`]: resultsFile(results),
  };
}

/** Every schema the contract exports, by its name: what has a name there has it in Python. */
async function contractSchemas(): Promise<Readonly<Record<string, z.ZodType>>> {
  const paths = readdirSync(CONTRACT, { recursive: true, encoding: "utf8" });
  const sources = paths.filter((path) => path.endsWith(".ts") && !path.endsWith(".test.ts"));
  const modules: readonly object[] = await Promise.all(sources.map((path) => import(join(CONTRACT, path))));
  const exported: readonly (readonly [string, unknown])[] = modules.flatMap((module) => Object.entries(module));
  const schemas = exported.filter((entry): entry is [string, z.ZodType] => entry[1] instanceof z.ZodType);
  return Object.fromEntries(schemas.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** A file of its docstring, its imports and what follows, two lines apart. */
function file(about: string, imports: readonly string[], parts: readonly string[]): string {
  const notice =
    "# Generated from packages/core/src/contract/ by `npm run docs`: change the contract, not this file.\n";
  const head = `${notice}${docstring(about, 0)}\nfrom __future__ import annotations\n\n${imports.join("\n")}\n`;
  return [head, ...parts.map((part) => `${part.trimEnd()}\n`)].join("\n\n");
}

function operationsFile(): string {
  const rows = ROWS.map(([name, { rpc, http }]) =>
    spread(`${python(name)}: Operation`, [python(rpc), python(http)], ",", 4),
  );
  const version = `CONTRACT_VERSION = (${CONTRACT_VERSION.major}, ${CONTRACT_VERSION.minor})\n`;
  return file(
    "The table of operations: the name of each over JSON-RPC, and its path over HTTP.",
    ["from typing import NamedTuple"],
    [
      'class Operation(NamedTuple):\n    """A row of the table."""\n\n    rpc: str\n    http: str\n',
      `OPERATIONS: dict[str, Operation] = {\n${rows.join("")}}\n`,
      `${version}${docstring("Major and minor of the wire contract; servers of the same are spoken to.", 0)}`,
    ],
  );
}

function errorsFile(): string {
  const rows = Object.entries(ERRORS).map(([name, { category, meaning }]) =>
    spread(`${python(name)}: ErrorRow`, [python(category), python(meaning)], ",", 4),
  );
  return file(
    "The server's table of errors.",
    ["from typing import NamedTuple"],
    [
      'class ErrorRow(NamedTuple):\n    """What a code means."""\n\n    category: str\n    meaning: str\n',
      `ERRORS: dict[str, ErrorRow] = {\n${rows.join("")}}\n`,
    ],
  );
}

/** What Python reads a JSON value as. */
const READ_AS: Readonly<Record<string, string>> = {
  string: "str",
  integer: "int",
  number: "int, float",
  boolean: "bool",
  object: "dict",
  array: "list",
};

/** The types of a field; none where it may be anything. */
function readAs({ type, const: value, anyOf, oneOf }: Schema): readonly string[] {
  const own = [type ?? (value === undefined ? [] : typeof value)].flat();
  return [...new Set([...own.map((one) => READ_AS[one] ?? one), ...(anyOf ?? oneOf ?? []).flatMap(readAs)])];
}

function eventsFile(): string {
  const rows = AgentEvent.options.map((option) => {
    const { properties: { type = {}, ...properties } = {}, required = [] } = schemaOf(option, "output");
    const fields = Object.entries(properties)
      .map(([field, schema]) => ({ field, types: readAs(schema) }))
      .filter(({ field, types }) => required.includes(field) && types.length > 0)
      .map(
        ({ field, types }) => `            ${python(field)}: (${types.join(", ")}${types.length === 1 ? "," : ""}),\n`,
      );
    const meaning = `        ${python(type.description ?? "")},\n`;
    const always = fields.length === 0 ? "        {},\n" : `        {\n${fields.join("")}        },\n`;
    return `    ${python(String(type.const))}: EventRow(\n${meaning}${always}    ),\n`;
  });
  return file(
    "The table of events: what each means, and the fields that it always has.",
    ["from typing import NamedTuple"],
    [
      'class EventRow(NamedTuple):\n    """A row of the table."""\n\n    meaning: str\n    required: dict[str, tuple[type, ...]]\n',
      `EVENTS: dict[str, EventRow] = {\n${rows.join("")}}\n`,
    ],
  );
}

const TYPING = [
  "from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict",
  "",
  "if sys.version_info >= (3, 11):",
  "    from typing import NotRequired",
  "elif TYPE_CHECKING:",
  "    from typing_extensions import NotRequired",
];

/** The options of calls that are written by hand: an operation's fields without those the call has parameters for. */
const OPTIONS = {
  SessionOptions: { of: "createSession", about: "Options of a new session.", without: ["prompt", "initial_turn"] },
  TurnOptions: { of: "startTurn", about: "Options of one further turn.", without: ["prompt", "session_id"] },
  SearchOptions: { of: "searchMemory", about: "Options of a search.", without: ["query"] },
} as const;
/** What Python takes as `tools`. */
const TOOLS = "external_tools";
/** Where an option is called otherwise than its field. */
const RENAMED: Readonly<Record<string, string>> = { flow_tool_overlay: "tool_overlay" };

function optionsFile(types: PythonTypes): string {
  const prompt = types.of(inputOf(OPERATIONS.createSession).properties?.prompt ?? {}, "Content", "");
  const atCreation = fieldsOf(OPERATIONS.createSession);
  // What a turn may only say again has the type it had at first.
  const typed = (field: string, schema: Schema): Schema =>
    isAnything(schema) ? { ...atCreation[field], ...schema } : schema;
  const inside = new Map<string, string>();
  for (const [name, { of, about, without }] of Object.entries(OPTIONS)) {
    const apart: readonly string[] = [...without, TOOLS];
    const fields = Object.entries(fieldsOf(OPERATIONS[of]))
      .filter(([field]) => !apart.includes(field))
      .map(([field, schema]) => [RENAMED[field] ?? field, withoutNull(typed(field, schema))] as const);
    types.define(name, { properties: Object.fromEntries(fields) }, about);
    const nested = fields.filter(([, schema]) => schema.properties !== undefined);
    for (const [field, schema] of nested) inside.set(field, types.of(schema, name + pascal(field), ""));
  }
  const within = [...inside].map(([field, type]) => `    ${python(field)}: ${type},\n`);
  const wire = Object.entries(RENAMED).map(([field, name]) => `${python(name)}: ${python(field)}`);
  return file(
    "Options of calls, under the names of the wire.",
    ["import sys", "from collections.abc import Mapping, Sequence", ...TYPING],
    [
      `Content: TypeAlias = ${prompt}\n${docstring('A text, or a list of content blocks such as `{"type": "text", "text": …}`.', 0)}`,
      ...types.classes,
      `WIRE_NAMES: dict[str, str] = {${wire.join(", ")}}\n${docstring("Options that are called otherwise on the wire.", 0)}`,
      `INSIDE: dict[str, type] = {\n${within.join("")}}\n${docstring("Options that have names of their own inside.", 0)}`,
    ],
  );
}

/** None is an option that was not given, of whichever type. */
function withoutNull(schema: Schema): Schema {
  const { type, anyOf, ...rest } = schema;
  const [only, ...more] = (anyOf ?? []).filter((option) => option.type !== "null");
  if (only !== undefined && more.length === 0) return { ...only, ...rest };
  return Array.isArray(type) ? { ...schema, type: type.filter((one) => one !== "null") } : schema;
}

function resultsFile(types: PythonTypes): string {
  const about = "The results of the server, in the names of the wire. A result may have further fields.";
  return file(about, ["import sys", ...TYPING], types.classes);
}

type Owner = "Session" | "Agent" | "Client";
/** Whose field names an owner; a client is asked for what belongs to neither. */
const NAMED_BY: readonly (readonly [Owner, string])[] = [
  ["Session", "session_id"],
  ["Agent", "agent"],
];
const OWNERS: Readonly<Record<Owner, string>> = {
  Client: "The operations on a server.",
  Session: "The operations on a session.",
  Agent: "The operations on an agent.",
};

/** Operations that Python offers in a form of its own, and under which name. */
const BY_HAND: Readonly<Record<string, string>> = {
  createSession: "Client.create_session",
  startTurn: "Session.turn",
  resumeSession: "Session.turn",
  forkSession: "Session.fork",
  forkReplacing: "Session.fork",
  rewriteTranscript: "Session.rewrite",
  restoreRevision: "Session.restore",
  searchMemory: "Client.search_memory",
  searchHistory: "Client.search_memory",
  readEventCursor: "Session.event_cursor",
  listEvents: "Session.events",
  readBlob: "Client.read_blob",
};
/** The field of an answer that is all a method gives, where it is not the only one. */
const GIVES: Readonly<Record<string, string>> = {
  listSessions: "sessions",
  listRewrites: "commits",
  undoCompaction: "compaction_ids",
};

/** The method that offers each operation, as `Session.fork`. */
export function pythonMethods(): Readonly<Record<string, string>> {
  return Object.fromEntries(ROWS.map(([name, row]) => [name, BY_HAND[name] ?? `${ownerOf(row)}.${calls(name, row)}`]));
}

function methodsFile(options: PythonTypes, results: PythonTypes): string {
  const methods = ROWS.map(([name, row]) => {
    const answer = answerOf(name, row, results);
    return { owner: ownerOf(row), text: name in BY_HAND ? "" : methodText(name, row, { options, answer }) };
  });
  const classes = Object.entries(OWNERS).map(([owner, about]) => {
    const own = methods.filter((method) => method.owner === owner && method.text !== "").map(({ text }) => text);
    return `class ${owner}Methods(Handle):\n${docstring(about, 4)}\n${own.join("\n")}`;
  });
  const imports = [
    "from typing import Any, Literal",
    "",
    "from ..transport import Handle",
    "from . import options, results",
  ];
  return file(
    "Operations as methods, with the fields of their inputs as parameters.",
    ["from collections.abc import Mapping, Sequence", ...imports],
    classes,
  );
}

function ownerOf(row: Operation): Owner {
  const { required = [] } = inputOf(row);
  return NAMED_BY.find(([, field]) => required.includes(field))?.[0] ?? "Client";
}

/** `modelCalls` as `model_calls`; a client's `readUsage` as `usage`, since what is only read needs no verb. */
function calls(name: string, { method }: Operation): string {
  const called = method ?? (name === "listSessions" ? name : name.replace(/^(?:read|list)/, ""));
  return called.replace(/(?<=[a-z])(?=[A-Z])/g, "_").toLowerCase();
}

interface Answer {
  readonly type: string;
  /** The one field of it that is given. */
  readonly gives?: string;
}

function answerOf(name: string, row: Operation, types: PythonTypes): Answer {
  const schema = schemaOf(row.output, "output");
  const { properties = {} } = schema;
  const about = `What \`${name}\` answers.`;
  const [only, ...more] = Object.keys(properties);
  const gives = GIVES[name] ?? (more.length === 0 ? only : undefined);
  const field = gives === undefined ? undefined : properties[gives];
  if (gives === undefined || field === undefined) return { type: types.of(schema, `${pascal(name)}Result`, about) };
  // What can only be said in one way says nothing.
  return field.const === undefined ? { type: types.of(field, pascal(name), about), gives } : { type: "None" };
}

function methodText(
  name: string,
  row: Operation,
  { options, answer }: { readonly options: PythonTypes; readonly answer: Answer },
): string {
  const { required = [] } = inputOf(row);
  const own = NAMED_BY.find(([owner]) => owner === ownerOf(row))?.[1];
  const fields = Object.entries(fieldsOf(row)).filter(([field]) => field !== own);
  const typed = fields.map(([field, schema]) => ({
    field,
    said: schema.description,
    type: inModule("options", options.of(schema, pascal(name) + pascal(field), `\`${field}\` of \`${name}\`.`)),
    isRequired: required.includes(field),
  }));
  const needed = typed.filter(({ isRequired }) => isRequired).map(({ field, type }) => `${field}: ${type}`);
  const optional = typed.filter(({ isRequired }) => !isRequired).map(({ field, type }) => `${field}: ${orNone(type)}`);
  // A single one after what is needed goes without saying its name.
  const star = optional.length === 0 || (optional.length === 1 && needed.length > 0) ? [] : ["*"];
  const head = `async def ${calls(name, row)}`;
  const result = answer.type === "None" ? "None" : inModule("results", answer.type);
  const about = typed.flatMap(({ field, said }) =>
    said === undefined ? [] : [`- \`${field}\`: ${said.replace(/\.$/, "")}`],
  );
  const sentences = about.length === 0 ? row.summary : [row.summary, "", ...about].join("\n");
  const call = (left: string) =>
    spread(`${left}await self._request`, [python(row.rpc), ...fields.map(([field]) => `${field}=${field}`)], "", 8);
  const body = () => {
    if (answer.type === "None") return call("");
    if (answer.gives === undefined) return `${call(`answer: ${result} = `)}        return answer\n`;
    return `${call("answer = ")}        ${answer.gives}: ${result} = answer[${python(answer.gives)}]\n        return ${answer.gives}\n`;
  };
  const signature = spread(head, ["self", ...needed, ...star, ...optional], ` -> ${result}:`, 4);
  return `${signature}${docstring(sentences, 8)}${body()}`;
}

function orNone(type: string): string {
  return type === "Any" ? "Any = None" : `${type.replace(/ \| None$/, "")} | None = None`;
}

/** The type with the file its classes are in. */
function inModule(module: "options" | "results", type: string): string {
  return type.replaceAll(/(?<!["\w])(?!(?:Any|False|Literal|Mapping|None|Sequence|True)\b)[A-Z]\w*/g, `${module}.$&`);
}

function inputOf(row: Operation): Schema {
  return schemaOf(row.input, "input");
}

/** The fields of an input that can say something: not those that must be left out, or have one value only. */
function fieldsOf(row: Operation): Readonly<Record<string, Schema>> {
  const fields = Object.entries(inputOf(row).properties ?? {});
  return Object.fromEntries(fields.filter(([, schema]) => schema.not === undefined && schema.const === undefined));
}
