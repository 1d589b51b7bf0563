import { z } from "@rkat/core/contract/schema";

/** As much of a JSON schema as the contract uses. */
export interface Schema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly items?: Schema;
  readonly prefixItems?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
  /** Of a field nothing may be given for. */
  readonly not?: Schema;
}

type Direction = "input" | "output";

export function schemaOf(type: z.ZodType, io: Direction): Schema {
  // zod's type of a JSON schema is this one with every keyword of the standard.
  return z.toJSONSchema(type, { io, unrepresentable: "any" }) as Schema;
}

const LINE_CHARS_MAX = 120;
/** Longer ones would not fit a line. */
const INLINE_VALUES_MAX = 5;
const SCALARS: Readonly<Record<string, string>> = {
  string: "str",
  integer: "int",
  number: "float",
  boolean: "bool",
  null: "None",
};

/** Python's types for schemas, and the classes they need. */
export interface PythonTypes {
  /** The type of a schema. An object is a class, called `name` unless the contract has a name for it. */
  of(schema: Schema, name: string, about: string): string;
  /** Writes the class of an object whose name is settled. */
  define(name: string, schema: Schema, about: string): void;
  /** The classes so far, each after those it needs. */
  readonly classes: readonly string[];
}

/** Words of Python that a class has no field of; a type with one is called into being. */
const KEYWORDS = [
  "from",
  "in",
  "is",
  "as",
  "if",
  "class",
  "def",
  "with",
  "import",
  "global",
  "lambda",
  "pass",
  "return",
];

/** Names programs know already, by those the place in the contract would give. */
const KEPT: Readonly<Record<string, string>> = {
  CapabilitiesCapability: "CapabilityRow",
  CompactResultCompactionReceipt: "Receipt",
  ReadRevisionResult: "TranscriptRevision",
  RewriteTranscriptResult: "RewriteResult",
  RunResultExtractionError: "ExtractionError",
  SessionContextPart: "ContextPart",
  SessionOptionsSkillRef: "SkillRef",
  TurnOptionsToolOverlay: "ToolOverlay",
};

export function createPythonTypes(io: Direction, contract: Readonly<Record<string, z.ZodType>>): PythonTypes {
  const list = io === "input" ? "Sequence" : "list";
  const map = io === "input" ? "Mapping" : "dict";
  const exported = Object.entries(contract)
    .map(([name, type]) => ({ name, schema: schemaOf(type, io) }))
    .filter(({ schema }) => schema.properties !== undefined || schema.enum !== undefined)
    .filter(({ name }) => /^[A-Z]/.test(name));
  // What stands first in the alphabet gives its name to what is built alike.
  const names = new Map(exported.toReversed().map(({ name, schema }) => [shapeOf(schema), name] as const));
  const said = new Map(exported.map(({ name, schema }) => [name, schema.description] as const));
  const classes = new Map<string, string>();

  /** What is built alike has one name: the contract's, or that of the first place. */
  const nameOf = (schema: Schema, place: string): string => {
    const shape = shapeOf(schema);
    const name = names.get(shape) ?? KEPT[place] ?? place;
    names.set(shape, name);
    return name;
  };

  const of = (schema: Schema, place: string, about: string): string => {
    if (schema.const !== undefined) return literal([schema.const]);
    if (schema.enum !== undefined) {
      if (schema.enum.length <= INLINE_VALUES_MAX) return literal(schema.enum);
      const name = nameOf(schema, place);
      const lines = schema.enum.map((value) => `    ${python(value)},\n`).join("");
      classes.set(name, `${name}: TypeAlias = Literal[\n${lines}]`);
      return name;
    }
    const options = schema.anyOf ?? schema.oneOf;
    if (options !== undefined) {
      const isOneObject = options.filter(({ properties }) => properties !== undefined).length === 1;
      // Which of several it is, a reader finds by looking; a union of classes would make every look a proof.
      const types = options.map((option) =>
        option.properties === undefined || isOneObject ? of(option, place, about) : `${map}[str, Any]`,
      );
      return union(types);
    }
    if (schema.prefixItems !== undefined) {
      return `${list}[${union(schema.prefixItems.map((item) => of(item, place, about)))}]`;
    }
    if (schema.type === "array") return `${list}[${of(schema.items ?? {}, singular(place), about)}]`;
    if (schema.properties !== undefined) {
      const name = nameOf(schema, place);
      if (!classes.has(name)) define(name, schema, about);
      return name;
    }
    if (schema.type === "object") {
      const values = typeof schema.additionalProperties === "object" ? schema.additionalProperties : {};
      return `${map}[str, ${of(values, place, about)}]`;
    }
    return schema.type === undefined ? "Any" : union([schema.type].flat().map((type) => SCALARS[type] ?? "Any"));
  };

  const define = (name: string, schema: Schema, about: string): void => {
    const { properties = {}, required = [] } = schema;
    const isTotal = required.length > 0;
    const isCalled = Object.keys(properties).some((field) => KEYWORDS.includes(field));
    const fields = Object.entries(properties).map(([field, inner]) => {
      // What is said of the field need not be true of every other of its class.
      const { description, ...bare } = inner;
      const type = of(bare, name + pascal(field), `\`${field}\` of \`${name}\`.`);
      const isNotRequired = isTotal && !required.includes(field);
      const known = isNotRequired ? `NotRequired[${type}]` : type;
      if (isCalled)
        return `${description === undefined ? "" : `        # ${sentence(description)}\n`}        "${field}": ${known},\n`;
      return `    ${field}: ${known}\n${description === undefined ? "" : docstring(sentence(description), 4)}`;
    });
    const what = sentence(said.get(name) ?? schema.description ?? about);
    if (isCalled) {
      const total = isTotal ? "" : "    total=False,\n";
      classes.set(
        name,
        `${name} = TypedDict(\n    "${name}",\n    {\n${fields.join("")}    },\n${total})\n${docstring(what, 0)}`.trimEnd(),
      );
      return;
    }
    const head = `class ${name}(TypedDict${isTotal ? "" : ", total=False"}):\n`;
    classes.set(name, `${head}${docstring(what, 4)}\n${fields.join("")}`.trimEnd());
  };

  return {
    of,
    define,
    get classes() {
      return [...classes.values()];
    },
  };
}

/** Whether any value will do. */
export function isAnything(schema: Schema): boolean {
  return shapeOf(schema) === shapeOf({});
}

/** Equal for what is built alike, whatever is said about it. */
function shapeOf(schema: Schema): string {
  const bare = (inner: Schema): unknown => [
    inner.type,
    inner.const,
    inner.enum,
    (inner.anyOf ?? inner.oneOf ?? inner.prefixItems)?.map(bare),
    inner.items && bare(inner.items),
    typeof inner.additionalProperties === "object" ? bare(inner.additionalProperties) : undefined,
    inner.properties && Object.entries(inner.properties).map(([field, value]) => [field, bare(value)]),
    inner.required && [...inner.required].sort(),
  ];
  return JSON.stringify(bare(schema));
}

function union(types: readonly string[]): string {
  const all = [...new Set(types)];
  const different = all.includes("str") ? all.filter((type) => !type.startsWith('Literal["')) : all;
  return different.includes("Any") ? "Any" : different.join(" | ");
}

function literal(values: readonly unknown[]): string {
  return `Literal[${values.map(python).join(", ")}]`;
}

/** A JSON value as Python writes it. */
export function python(value: unknown): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  return JSON.stringify(value);
}

function singular(name: string): string {
  return name.replace(/ies$/, "y").replace(/s$/, "");
}

/** `message_count` as `MessageCount`, and `readHistory` as `ReadHistory`. */
export function pascal(name: string): string {
  return name.replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** What a schema says of a field, which goes on from its name, as a sentence of its own. */
function sentence(text: string): string {
  const begun = text.replace(/^[a-z](?=[a-z]*(?:[\s,;.]|$))/, (letter) => letter.toUpperCase());
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

/** Sentences as a docstring, in lines that fit. */
export function docstring(text: string, indent: number): string {
  const blank = " ".repeat(indent);
  const safe = text.replaceAll("\\", "\\\\").replaceAll('"""', "'''");
  const lines = safe.split("\n").flatMap((line) => wrapped(line, LINE_CHARS_MAX - indent));
  const [only = "", ...more] = lines;
  const end = only.endsWith('"') ? ' """' : '"""';
  const isShort = more.length === 0 && indent + 3 + only.length + end.length <= LINE_CHARS_MAX;
  if (isShort) return `${blank}"""${only}${end}\n`;
  const [first = "", ...rest] = wrapped(safe.split("\n")[0] ?? "", LINE_CHARS_MAX - indent - 3);
  const others = safe
    .split("\n")
    .slice(1)
    .flatMap((line) => wrapped(line, LINE_CHARS_MAX - indent));
  const body = [...rest, ...others].map((line) => (line === "" ? "\n" : `${blank}${line}\n`));
  return `${blank}"""${first}\n${body.join("")}${blank}"""\n`;
}

function wrapped(line: string, charsMax: number): readonly string[] {
  const lines: string[] = [];
  let current = "";
  for (const word of line.split(" ")) {
    if (current !== "" && current.length + 1 + word.length > charsMax) {
      lines.push(current);
      current = word;
    } else current = current === "" ? word : `${current} ${word}`;
  }
  return [...lines, current];
}

/** `head(args)tail` on one line, or with the arguments on the next, or each on its own: as the formatter writes it. */
export function spread(head: string, args: readonly string[], tail: string, indent: number): string {
  const blank = " ".repeat(indent);
  const one = `${blank}${head}(${args.join(", ")})${tail}\n`;
  if (one.length <= LINE_CHARS_MAX + 1) return one;
  const two = `${blank}    ${args.join(", ")}\n`;
  if (two.length <= LINE_CHARS_MAX + 1) return `${blank}${head}(\n${two}${blank})${tail}\n`;
  return `${blank}${head}(\n${args.map((arg) => `${blank}    ${arg},\n`).join("")}${blank})${tail}\n`;
}
