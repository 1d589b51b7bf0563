import type { JsonObject } from "../../contract/session.ts";
import type { Passage } from "./conversation.ts";
import { asFields } from "./errands.ts";
import { COVERAGE_MIN, type Match, queryOf, rankPassages } from "./rank.ts";

const DEPTH_MAX = 8;
const ITEMS_MAX = 5;
const UNKNOWN = "unknown";
/** Fields that ask for the answer itself, whatever it is about. */
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
  /** What would be said in plain words. */
  readonly reply: string;
}

/** A value and whether the conversation gave it. */
interface Filled {
  readonly value: unknown;
  readonly isFound: boolean;
}

interface Place {
  readonly evidence: Evidence;
  readonly root: JsonObject;
  /** Names from the outside in. */
  readonly path: readonly string[];
  readonly depth: number;
}

type Schema = Readonly<Record<string, unknown>>;

/** JSON of a schema, filled from the conversation; what is required is there even when nothing was found for it. */
export function fillSchema(schema: JsonObject, evidence: Evidence): unknown {
  return fill(schema, { evidence, root: schema, path: [], depth: 0 }).value;
}

function fill(given: unknown, place: Place): Filled {
  const schema = resolve(given, place);
  if (place.depth > DEPTH_MAX) return { value: null, isFound: false };
  if ("const" in schema) return { value: schema.const, isFound: true };
  if (Array.isArray(schema.enum)) return fillEnum(schema.enum, schema, place);
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
      return fillBoolean(schema, place);
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

/** The first kind of value that the conversation can give; null, where allowed, when it can give none. */
function fillBranches(branches: readonly unknown[], place: Place): Filled {
  const filled = branches.map((branch) => fill(branch, { ...place, depth: place.depth + 1 }));
  const found = filled.find((branch) => branch.isFound) ?? filled.find((branch) => branch.value === null);
  return found ?? filled[0] ?? { value: null, isFound: false };
}

function fillEnum(values: readonly unknown[], schema: Schema, place: Place): Filled {
  const best = matchesFor(schema, place)[0]?.passage.text ?? "";
  const newestFirst = [best, ...place.evidence.passages.map(({ text }) => text).reverse()];
  for (const text of newestFirst) {
    const value = values.find((candidate) => occursIn(candidate, text));
    if (value !== undefined) return { value, isFound: true };
  }
  return { value: values[0] ?? null, isFound: false };
}

/** As a word: "low" is not in "follow". */
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
    const inner = fill(properties[name] ?? {}, { ...place, path: [...place.path, name], depth: place.depth + 1 });
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
  const matches = matchesFor(items, place).sort((a, b) => a.passage.order - b.passage.order);
  const { enum: choices } = items;
  if (Array.isArray(choices)) {
    return choices.filter((choice) => place.evidence.passages.some(({ text }) => occursIn(choice, text)));
  }
  const [type] = typesOf(items);
  if (type === "string") return matches.map(({ passage }) => passage.text);
  if (type === "number" || type === "integer")
    return matches.flatMap(({ passage }) => numbersIn(passage.text).map(Number));
  const single = fill(items, place);
  return single.isFound ? [single.value] : [];
}

function fillString(schema: Schema, place: Place): Filled {
  const name = place.path.at(-1) ?? "answer";
  const format = typeof schema.format === "string" ? FORMATS[schema.format] : undefined;
  const matches = matchesFor(schema, place);
  if (format !== undefined) {
    const texts = [...matches.map(({ passage }) => passage), ...place.evidence.passages.toReversed()];
    const value = texts.map(({ text }) => format.shape.exec(text)?.[0]).find((found) => found !== undefined);
    return { value: value ?? format.blank, isFound: value !== undefined };
  }
  const best = matches[0];
  const isAnswer = best === undefined && ANSWER_FIELD.test(name) && place.evidence.reply !== "";
  const text =
    best === undefined ? (isAnswer ? place.evidence.reply : UNKNOWN) : valueIn({ sentence: best.passage.text, name });
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
  const name = wordsOf(place.path.at(-1) ?? "").at(-1) ?? "";
  for (const { passage } of matchesFor(schema, place)) {
    const at = passage.text.toLowerCase().indexOf(name.toLowerCase());
    const found = numbersIn(passage.text.slice(Math.max(at, 0)))[0] ?? numbersIn(passage.text)[0];
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

function fillBoolean(schema: Schema, place: Place): Filled {
  const best = matchesFor(schema, place)[0];
  return { value: best !== undefined && !NEGATION.test(best.passage.text), isFound: best !== undefined };
}

/** The passages about a field: by its name, best where its parent's is near; else by its description. */
function matchesFor(schema: Schema, { path, evidence }: Place): Match[] {
  const [name = "", parent = ""] = path.toReversed();
  const description = typeof schema.description === "string" ? schema.description : "";
  const named = search({ words: name, context: parent }, evidence);
  if (named.length > 0) return named;
  const alone = parent === "" ? [] : search({ words: name, context: "" }, evidence);
  return alone.length > 0 ? alone : search({ words: description, context: "" }, evidence);
}

/** Passages that hold the words, or most of them; those that hold the context too come first. */
function search({ words, context }: { words: string; context: string }, { passages }: Evidence): Match[] {
  const own = queryOf(plainWords(words)).terms.length;
  if (own === 0) return [];
  const query = queryOf(`${plainWords(words)} ${plainWords(context)}`);
  // The own terms are the first ones: a passage about the context alone is about something else.
  const ownBits = 2 ** Math.min(own, query.terms.length) - 1;
  return rankPassages(query, passages).filter(
    ({ bits, coverage }) => (bits & ownBits) !== 0 && coverage >= COVERAGE_MIN,
  );
}

function plainWords(name: string): string {
  return wordsOf(name).join(" ").toLowerCase();
}

function wordsOf(name: string): string[] {
  return name.split(/[^\p{L}\p{N}]+|(?<=[\p{Ll}\p{N}])(?=\p{Lu})/u).filter((word) => word !== "");
}
