import type { JsonObject } from "../../contract/session.ts";
import { asFields, type Passage } from "./conversation.ts";

const DEPTH_MAX = 8;
const ITEMS_MAX = 5;
const UNKNOWN = "unknown";
/** Fields that take the answer itself. */
const ANSWER_FIELD = /^(?:|answer|summary|text|result|message|response|reply|output|content)$/iu;
const NEGATION = /\b(?:not|never|no|none|false|disabled|off|without|cannot)\b|n't\b/iu;
const NUMBER = /(?<![\w.])-?\d+(?:\.\d+)?/u;
const FORMATS: Readonly<Record<string, { readonly shape: RegExp; readonly blank: string }>> = {
  date: { shape: /\b\d{4}-\d\d-\d\d\b/u, blank: "1970-01-01" },
  "date-time": {
    shape: /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)/u,
    blank: "1970-01-01T00:00:00Z",
  },
  time: { shape: /\b\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)/u, blank: "00:00:00Z" },
  email: { shape: /(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*\w/u, blank: "unknown@example.invalid" },
  uri: { shape: /https?:\/\/[^\s"'<>)]+/u, blank: "about:blank" },
  uuid: { shape: /\b[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\b/iu, blank: "00000000-0000-0000-0000-000000000000" },
};

export interface Evidence {
  readonly passages: readonly Passage[];
  /** The answer in plain text. */
  readonly reply: string;
}

interface Filled {
  readonly value: unknown;
  readonly isFound: boolean;
}

interface Place {
  readonly evidence: Evidence;
  readonly root: JsonObject;
  /** Name of the innermost field. */
  readonly name: string;
  readonly depth: number;
}

type Schema = Readonly<Record<string, unknown>>;

/** JSON of a schema, filled from the conversation; required fields get a valid blank when nothing was said about them. */
export function fillSchema(schema: JsonObject, evidence: Evidence): unknown {
  return fill(schema, { evidence, root: schema, name: "", depth: 0 }).value;
}

function fill(given: unknown, place: Place): Filled {
  const schema = resolve(given, place);
  const deeper = { ...place, depth: place.depth + 1 };
  if (place.depth > DEPTH_MAX) return { value: null, isFound: false };
  if ("const" in schema) return { value: schema.const, isFound: true };
  if (Array.isArray(schema.enum)) return fillEnum(schema.enum, place);
  const types = typesOf(schema);
  const branches = [schema.anyOf, schema.oneOf].find(Array.isArray) ?? types.map((type) => ({ ...schema, type }));
  if (branches.length > 1) return firstFound(branches.map((branch) => fill(branch, deeper)));
  switch (types[0]) {
    case "object":
      return fillObject(schema, place);
    case "array":
      return fillArray(schema, deeper);
    case "number":
    case "integer":
      return fillNumber(schema, place);
    case "boolean": {
      const text = newestAbout(place);
      return { value: text !== undefined && !NEGATION.test(text), isFound: text !== undefined };
    }
    case "null":
      return { value: null, isFound: false };
    default:
      return fillString(schema, place);
  }
}

function resolve(given: unknown, { root }: Place): Schema {
  let schema: Schema = asFields(given);
  for (let hops = 0; hops < DEPTH_MAX && typeof schema.$ref === "string"; hops += 1) {
    const keys = schema.$ref.replace(/^#\/?/u, "").split("/").filter(Boolean);
    schema = asFields(keys.reduce<unknown>((value, key) => asFields(value)[key], root));
  }
  if (!Array.isArray(schema.allOf)) return schema;
  const parts = [schema, ...schema.allOf.map(asFields)];
  const properties = Object.assign({}, ...parts.map((part) => asFields(part.properties)));
  const required = parts.flatMap((part) => (Array.isArray(part.required) ? part.required : []));
  return { ...Object.assign({}, ...parts), properties, required, allOf: undefined };
}

function typesOf(schema: Schema): readonly unknown[] {
  if (schema.type !== undefined) return [schema.type].flat();
  if (schema.properties !== undefined) return ["object"];
  return schema.items === undefined ? ["string"] : ["array"];
}

function firstFound(filled: readonly Filled[]): Filled {
  const found = filled.find((branch) => branch.isFound) ?? filled.find((branch) => branch.value === null);
  return found ?? filled[0] ?? { value: null, isFound: false };
}

function fillEnum(values: readonly unknown[], { evidence }: Place): Filled {
  // As whole words: "low" is not in "follow".
  const words = (text: string) => ` ${text.toLowerCase().replaceAll(/[^\p{L}\p{N}]+/gu, " ")} `;
  const said = evidence.passages.map(({ text }) => words(text)).reverse();
  const found = said.flatMap((text) => values.filter((value) => text.includes(words(String(value)))));
  return { value: found[0] ?? values[0] ?? null, isFound: found.length > 0 };
}

function fillObject(schema: Schema, place: Place): Filled {
  const properties = asFields(schema.properties);
  const required = new Set(Array.isArray(schema.required) ? schema.required.map(String) : []);
  const value: Record<string, unknown> = {};
  let isFound = false;
  for (const name of new Set([...Object.keys(properties), ...required])) {
    const inner = fill(properties[name] ?? {}, { ...place, name, depth: place.depth + 1 });
    isFound ||= inner.isFound;
    if (inner.isFound || required.has(name)) value[name] = inner.value;
  }
  return { value, isFound };
}

function fillArray(schema: Schema, place: Place): Filled {
  const items = resolve(schema.items, place);
  const least = typeof schema.minItems === "number" ? Math.min(schema.minItems, ITEMS_MAX) : 0;
  const most = Math.max(least, Math.min(typeof schema.maxItems === "number" ? schema.maxItems : ITEMS_MAX, ITEMS_MAX));
  const single = fill(items, place);
  const isText = typesOf(items)[0] === "string" && items.enum === undefined;
  const found = isText ? textsAbout(place) : single.isFound ? [single.value] : [];
  const values = schema.uniqueItems === true ? [...new Set(found)] : [...found];
  while (values.length < least) values.push(single.value);
  return { value: values.slice(0, most), isFound: found.length > 0 };
}

function fillString({ format, minLength, maxLength }: Schema, place: Place): Filled {
  const known = typeof format === "string" ? FORMATS[format] : undefined;
  if (known !== undefined) {
    const said = place.evidence.passages.toReversed().map(({ text }) => known.shape.exec(text)?.[0]);
    const value = said.find((match) => match !== undefined);
    return { value: value ?? known.blank, isFound: value !== undefined };
  }
  const { reply } = place.evidence;
  const isAnswer = ANSWER_FIELD.test(place.name) && reply !== "";
  const found = newestAbout(place) ?? (isAnswer ? reply : undefined);
  const text = valueIn(found ?? UNKNOWN, place);
  const padded = typeof minLength === "number" ? text.padEnd(minLength, ".") : text;
  return {
    value: typeof maxLength === "number" ? padded.slice(0, maxLength) : padded,
    isFound: found !== undefined,
  };
}

function fillNumber({ type, minimum, maximum, ...exclusive }: Schema, place: Place): Filled {
  const { exclusiveMinimum: above, exclusiveMaximum: below } = exclusive;
  const found = NUMBER.exec(valueIn(newestAbout(place) ?? "", place).replaceAll(/(?<=\d),(?=\d{3}\b)/gu, ""))?.[0];
  const low = [minimum, typeof above === "number" ? above + 1 : above].find(Number.isFinite) ?? -Infinity;
  const high = [maximum, typeof below === "number" ? below - 1 : below].find(Number.isFinite) ?? Infinity;
  const value = Math.min(Math.max(Number(found ?? 0), Number(low)), Math.max(Number(high), Number(low)));
  return { value: type === "integer" ? Math.trunc(value) : value, isFound: found !== undefined };
}

/** "The deploy key is in vault/prod." gives "in vault/prod" for `deploy_key`; otherwise the whole sentence. */
function valueIn(sentence: string, { name }: Place): string {
  const verb = "(?:\\bis\\b|\\bare\\b|\\bwas\\b|=|:)";
  const said = new RegExp(`(?<![\\p{L}\\p{N}])${lastWord(name)}\\w*[^.:=]{0,40}?${verb}\\s*(?<value>.+)$`, "iu").exec(
    sentence,
  );
  return said?.groups?.value?.replace(/[.。!]$/u, "").trim() || sentence;
}

function newestAbout(place: Place): string | undefined {
  return textsAbout(place).at(-1);
}

/** The sentences with the last word of the field's name, oldest first. */
function textsAbout({ name, evidence }: Place): readonly string[] {
  const word = lastWord(name);
  const form = new RegExp(`(?<![\\p{L}\\p{N}])${word}`, "iu");
  return evidence.passages.flatMap(({ text }) => (word !== "" && form.test(text) ? [text] : []));
}

/** In lower case and singular, without signs that mean something in an expression. */
function lastWord(name: string): string {
  const words = name.split(/[^\p{L}\p{N}]+|(?<=[\p{Ll}\p{N}])(?=\p{Lu})/u).filter((word) => word !== "");
  return (words.at(-1) ?? "").toLowerCase().replace(/(?<=\p{L}{2})s$/u, "");
}
