import type { JsonObject } from "../../contract/session.ts";
import { asFields, type Passage } from "./conversation.ts";
import { COVERAGE_MIN, queryOf, rankPassages } from "./rank.ts";

const DEPTH_MAX = 8;
const ITEMS_MAX = 5;
const UNKNOWN = "unknown";
/** Fields that take the answer itself. */
const ANSWER_FIELD = /^(?:answer|summary|text|result|message|response|reply|output|content)$/iu;
const NEGATION = /\b(?:not|never|no|none|false|disabled|off|without|cannot)\b|n't\b/iu;
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
  if (place.depth > DEPTH_MAX) return { value: null, isFound: false };
  if ("const" in schema) return { value: schema.const, isFound: true };
  if (Array.isArray(schema.enum)) return fillEnum(schema.enum, place);
  const branches = [schema.anyOf, schema.oneOf].find(Array.isArray);
  if (branches !== undefined) return fillBranches(branches, place);
  const types = typesOf(schema);
  if (types.length > 1) {
    return fillBranches(
      types.map((type) => ({ ...schema, type })),
      place,
    );
  }
  switch (types[0]) {
    case "object":
      return fillObject(schema, place);
    case "array":
      return fillArray(schema, place);
    case "number":
    case "integer":
      return fillNumber(schema, place);
    case "boolean":
      return fillBoolean(place);
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
  if (Array.isArray(schema.type) && schema.type.length > 0) return schema.type;
  if (schema.type !== undefined && !Array.isArray(schema.type)) return [schema.type];
  if (schema.properties !== undefined) return ["object"];
  return schema.items === undefined ? ["string"] : ["array"];
}

/** The first branch found in the conversation; else null, where allowed. */
function fillBranches(branches: readonly unknown[], place: Place): Filled {
  const filled = branches.map((branch) => fill(branch, { ...place, depth: place.depth + 1 }));
  const found = filled.find((branch) => branch.isFound) ?? filled.find((branch) => branch.value === null);
  return found ?? filled[0] ?? { value: null, isFound: false };
}

function fillEnum(values: readonly unknown[], place: Place): Filled {
  const texts = [...passagesAbout(place), ...place.evidence.passages.toReversed()].map(({ text }) => text);
  for (const text of texts) {
    const value = values.find((candidate) => occursIn(candidate, text));
    if (value !== undefined) return { value, isFound: true };
  }
  return { value: values[0] ?? null, isFound: false };
}

/** As whole words: "low" is not in "follow". */
function occursIn(value: unknown, text: string): boolean {
  if (typeof value !== "string" && typeof value !== "number") return false;
  const words = (part: string) =>
    ` ${part
      .toLowerCase()
      .replace(/[^\p{L}\p{N}]+/gu, " ")
      .trim()} `;
  return words(String(value)).trim() !== "" && words(text).includes(words(String(value)));
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
  const least = typeof schema.minItems === "number" ? schema.minItems : 0;
  const most = Math.max(least, Math.min(typeof schema.maxItems === "number" ? schema.maxItems : ITEMS_MAX, ITEMS_MAX));
  const found = itemsFor(items, { ...place, depth: place.depth + 1 }).slice(0, most);
  const values = schema.uniqueItems === true ? [...new Set(found)] : found;
  while (values.length < Math.min(least, ITEMS_MAX))
    values.push(fill(items, { ...place, depth: place.depth + 1 }).value);
  return { value: values, isFound: found.length > 0 };
}

function itemsFor(items: Schema, place: Place): unknown[] {
  const isText = typesOf(items)[0] === "string" && items.enum === undefined;
  if (isText)
    return passagesAbout(place)
      .sort((a, b) => a.order - b.order)
      .map(({ text }) => text);
  const single = fill(items, place);
  return single.isFound ? [single.value] : [];
}

function fillString(schema: Schema, place: Place): Filled {
  const { name, evidence } = place;
  const format = typeof schema.format === "string" ? FORMATS[schema.format] : undefined;
  const about = passagesAbout(place);
  if (format !== undefined) {
    const texts = [...about, ...evidence.passages.toReversed()].map(({ text }) => text);
    const value = texts.map((text) => format.shape.exec(text)?.[0]).find((found) => found !== undefined);
    return { value: value ?? format.blank, isFound: value !== undefined };
  }
  const [best] = about;
  const isAnswer = (name === "" || ANSWER_FIELD.test(name)) && evidence.reply !== "";
  const text = best === undefined ? (isAnswer ? evidence.reply : UNKNOWN) : valueIn({ sentence: best.text, name });
  return { value: fitLength(text, schema), isFound: best !== undefined || isAnswer };
}

function fitLength(text: string, { minLength, maxLength }: Schema): string {
  const padded = typeof minLength === "number" ? text.padEnd(minLength, ".") : text;
  return typeof maxLength === "number" ? padded.slice(0, maxLength) : padded;
}

/** "The deploy key is in vault/prod." gives "in vault/prod" for `deploy_key`; otherwise the whole sentence. */
function valueIn({ sentence, name }: { sentence: string; name: string }): string {
  const lastWord = wordsOf(name).at(-1) ?? name;
  const escaped = lastWord.replace(/[^\p{L}\p{N}]/gu, "");
  const said = new RegExp(
    `${escaped}\\w*[^.:=]{0,40}?(?:\\bis\\b|\\bare\\b|\\bwas\\b|=|:)\\s*(?<value>.+)$`,
    "iu",
  ).exec(sentence);
  const value = said?.groups?.value?.replace(/[.。!]$/u, "").trim();
  return value === undefined || value === "" ? sentence : value;
}

function fillNumber(schema: Schema, place: Place): Filled {
  const lastWord = wordsOf(place.name).at(-1)?.toLowerCase() ?? "";
  for (const { text } of passagesAbout(place)) {
    const at = text.toLowerCase().indexOf(lastWord);
    const found = numbersIn(text.slice(Math.max(at, 0)))[0] ?? numbersIn(text)[0];
    if (found !== undefined) return { value: fitRange(Number(found), schema), isFound: true };
  }
  return { value: fitRange(0, schema), isFound: false };
}

function fitRange(value: number, { type, minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Schema): number {
  const low =
    typeof minimum === "number" ? minimum : typeof exclusiveMinimum === "number" ? exclusiveMinimum + 1 : value;
  const high =
    typeof maximum === "number" ? maximum : typeof exclusiveMaximum === "number" ? exclusiveMaximum - 1 : value;
  const fitted = Math.min(Math.max(value, low), Math.max(high, low));
  return type === "integer" ? Math.trunc(fitted) : fitted;
}

function numbersIn(text: string): string[] {
  return text.replace(/(?<=\d),(?=\d{3}\b)/gu, "").match(/(?<![\w.])-?\d+(?:\.\d+)?/gu) ?? [];
}

function fillBoolean(place: Place): Filled {
  const [best] = passagesAbout(place);
  return { value: best !== undefined && !NEGATION.test(best.text), isFound: best !== undefined };
}

/** The passages that hold the words of the field's name, best first. */
function passagesAbout({ name, evidence }: Place): Passage[] {
  return rankPassages(queryOf(wordsOf(name).join(" ").toLowerCase()), evidence.passages)
    .filter(({ coverage }) => coverage >= COVERAGE_MIN)
    .map(({ passage }) => passage);
}

function wordsOf(name: string): string[] {
  return name.split(/[^\p{L}\p{N}]+|(?<=[\p{Ll}\p{N}])(?=\p{Lu})/u).filter((word) => word !== "");
}
