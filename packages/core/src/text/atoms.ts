import { foldWidth, matchesOf } from "./canonical.ts";
import type { Figure } from "./dates.ts";
import { figuresIn, takenBy } from "./numbers.ts";
import { remembered } from "./remembered.ts";

/** A piece of text that must stay exact: a path, a name, an address or a number. */
export interface Atom {
  readonly kind: "path" | "identifier" | "url" | "number";
  readonly text: string;
  readonly start: number;
}

/** An endless token (base64, a minified line) names nothing. */
const ATOM_CHARS_MAX = 200;

const URL =
  /(?:(?:https?|wss?|ftp|sftp|ssh|git|file|s3|gs|redis|amqps?|postgres(?:ql)?|mysql|mongodb(?:\+srv)?|jdbc:\w+):\/\/|www\.(?=[a-z]))[^\s"'`<>“”「」『』（）。，、；！？\u3040-\u30ff\u3400-\u9fff]{2,}/giu;
const URL_TAIL = /(?<![.,;:!?*_)\]}])[.,;:!?*_)\]}]+$/u;
const CHUNK = /[[\p{L}\p{N}\p{M}_$@.:\/\\~#+%\-]--[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]]{2,}/gv;
/** Most chunks; checked first, because every form of a name costs a test. */
const PLAIN_WORD = /^[A-Z]?[a-z]+[.:]?$/u;
/** The dashes of an option belong to it. */
const CHUNK_EDGES = /^(?!--[a-z])[.:+%@-]+(?=[^/\\.]|$)|(?<![.:+%@/~#$-])[.:+%@/~#$-]+$/gu;
const EXTENSION =
  /\.(?:[cm]?[jt]sx?|json[5lc]?|ya?ml|toml|ini|cfg|conf|env|lock|md|mdx|txt|rst|log|csv|tsv|xlsx?|docx?|pptx?|pdf|odt|tex|html?|css|s[ac]ss|less|vue|svelte|py|ipynb|rb|rs|go|java|kts?|swift|c|h|cc|cpp|hpp|cs|php|pl|lua|sh|bash|zsh|fish|ps1|bat|sql|db|sqlite3?|parquet|png|jpe?g|gif|svg|webp|mp[34]|wav|mov|zip|tgz|gz|tar|whl|jar|war|exe|dll|so|dylib|pem|crt|key|tf|tfvars|proto|graphql|gradle|xml|plist|service|dockerfile|bak|tmp|snap|diff|patch|wasm|ics|eml)$/iu;
/** Names of products and languages that look like a file. */
const PRODUCT = /^(?:\p{Lu}\p{Ll}+\.(?:js|io|ai|py|go)|ASP\.NET)$/u;
const LINE_SUFFIX = /:\d+(?:[:-]\d+)?$/u;
/** German and English append words to a file name: `package.json-Datei`, `app.ts-based`; `1.2.3-beta` is a version. */
const HUNG_WORD = /(?<=\.[a-z]\w{0,4})-\p{L}{3,}$/u;

/** Words with inner capitals that are no names: languages, plurals, units, and emphasis. */
const COMMON_NAMES = new Set(
  `javascript typescript devops wifi phd ids apis urls prs cis saas iot kwh mwh restful
  api url uri http https html css json xml yaml csv pdf sql cli gui sdk ide cpu gpu ram ssd usb faq eta tbd wip fyi asap todo
  kpi ceo cto cfo usa usd eur gbp chf jpy cny rmb utc gmt cet cest est pst mon tue wed thu fri sat sun jan feb mar apr jun
  jul aug sep oct nov dec get put post patch head info warn error debug fatal trace true false null none and but for not nor
  any all the yes only never must dont do with without done next open note notes key goal goals plan files file state
  status step steps task tasks user users rule rules facts fixed new old now end key`.split(/\s+/u),
);

export function atomsIn(text: string): Atom[] {
  return readAtoms(text).atoms;
}

/** With all figures of the text, also those that are part of a name. */
export function readAtoms(text: string): { readonly atoms: Atom[]; readonly figures: readonly Figure[] } {
  const folded = foldWidth(text);
  const urls = urlsIn(folded);
  const isUrl = takenBy(urls);
  const names: Atom[] = [];
  for (const match of matchesOf(CHUNK, folded)) {
    if (PLAIN_WORD.test(match[0]) || match[0].length > ATOM_CHARS_MAX || isUrl(match.index, match[0].length)) continue;
    collectNames(match[0], match.index, names);
  }
  const figures = figuresIn(folded);
  // `GiB` and `dB` look like names and are units.
  const starts = new Map(figures.map(({ start, text: figure }) => [start + figure.length, start]));
  const others = names.filter(({ start, text: name }) => (starts.get(start + name.length) ?? start) >= start);
  const isTaken = takenBy([...urls, ...others]);
  const numbers = figures
    .filter((figure) => !isTaken(figure.start, figure.text.length))
    .map(({ text: found, start }) => ({ kind: "number" as const, text: found, start }));
  return { atoms: [...urls, ...others, ...numbers], figures };
}

function urlsIn(text: string): Atom[] {
  const urls: Atom[] = [];
  if (!text.includes("://") && !/www\./i.test(text)) return urls;
  for (const match of matchesOf(URL, text)) {
    const url = match[0].replace(URL_TAIL, "");
    if (url.length <= ATOM_CHARS_MAX) urls.push({ kind: "url", text: url, start: match.index });
  }
  return urls;
}

/** The name in a chunk, or the names on both sides of its colons: `hits:1204518`. */
function collectNames(chunk: string, at: number, into: Atom[]): void {
  const whole = nameOf(chunk, at);
  if (whole !== undefined) into.push(whole);
  if (whole !== undefined || !chunk.includes(":")) return;
  let start = at;
  for (const part of chunk.split(/(?<=:)/u)) {
    const atom = nameOf(part, start);
    if (atom !== undefined) into.push(atom);
    start += part.length;
  }
}

/** The name in a chunk; undefined for a plain word or a number. */
function nameOf(chunk: string, at: number): Atom | undefined {
  const name = readName(chunk);
  return name === "none" ? undefined : { ...name, start: at + name.start };
}

/** Cached: every form of a name costs a test, and texts repeat names. */
const readName = remembered({ entriesMax: 20_000 }, (chunk): Atom | "none" => {
  const trimmed = chunk.replace(CHUNK_EDGES, "");
  const bare = trimmed.replace(LINE_SUFFIX, "").replace(HUNG_WORD, "");
  const start = chunk.indexOf(trimmed);
  if (isPath(bare)) return { kind: "path", text: bare, start };
  const name = trimmed.replace(HUNG_WORD, "");
  // Capitals before a colon are a label.
  const isName = isIdentifier(name) || (isAcronym(name) && !chunk.endsWith(":"));
  return isName ? { kind: "identifier", text: name, start } : "none";
});

/** Slashes with a root, an extension or depth; `and/or`, `24/7` and `km/h` are words. */
function isPath(text: string): boolean {
  if (/^[A-Za-z]:[\\/][^\\/]|^\\\\\w/u.test(text)) return true;
  if (/^\d+(?:[/.]\d+)*$/u.test(text) || PRODUCT.test(text) || text.includes("@")) return false;
  if (!/[\\/]/u.test(text)) return EXTENSION.test(text) && /^[\p{L}\p{N}_.-]+$/u.test(text) && !/^\.?\d/u.test(text);
  if (/^(?:\/|~\/)[\p{L}\p{N}_.@+-]{2,}/u.test(text)) return true;
  if (/^\.{1,2}[\\/]/u.test(text)) return true;
  const segments = text.split(/[\\/]/u);
  if (segments.includes("") || !segments.every((segment) => /[\p{L}_*]/u.test(segment))) return false;
  return EXTENSION.test(text) || (segments.length > 2 && segments.some((segment) => /[a-z_.]/u.test(segment)));
}

const IDENTIFIERS: readonly RegExp[] = [
  /^[^@\s:/]+@[\p{L}\d-]+(?:\.[\p{L}\d-]+)+$/u,
  /^@?[a-z\d][\w.-]*\/[a-z][\w.-]*@[\w.^~-]+$/iu,
  /^@[a-z\d][\w-]*\/[a-z][\w.-]*$/iu,
  /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/iu,
  /^(?:sha\d*[:-])?(?=[\da-f]*\d)(?=[\da-f]*[a-f])[\da-f]{7,64}$/iu,
  /^\d{1,3}(?:\.\d{1,3}){3}(?:[:/]\d{1,5})?$/u,
  /^[a-z][\w-]*(?:\.[\w-]+)*:\d{2,5}$/iu,
  /^[a-z\d][\w.-]*(?:\/[\w.-]+)+:[\w.-]+$/iu,
  /^[a-z][\w.-]*:v?\d[\d.]*-[a-z][\w.-]*$/u,
  /^v?\d+(?:\.\d+){2,3}(?:[-+][\w.-]+)?$/iu,
  /^v\d+(?:\.\d+)+(?:[-+][\w.-]+)?$/iu,
  /^[A-Z][A-Z\d]*-\d+(?:-\d+)*$/u,
  /^#\d{2,}$/u,
  /^\$\{?[A-Z_][A-Z\d_]*$/iu,
  /^[\p{L}\d$]+(?:_[\p{L}\d]+)+$/u,
  /^_*\p{Ll}[\p{Ll}\d]*\p{Lu}[\p{L}\d]*$/u,
  /^\p{Lu}[\p{Ll}\d]+\p{Lu}[\p{L}\d]*$/u,
  /^\p{Lu}{2,}\p{Ll}{2}[\p{L}\d]*$/u,
  /^--[a-z][\w-]+$/u,
];
const DOTTED = /^[\p{L}_$][\p{L}\d_$-]+(?:\.[\p{L}\d_$-]{2,})+$/u;
const KEBAB = /^[\p{L}\d]+(?:[-_.][\p{L}\d]+)+$/u;
/** `24-hour`, `1-3`, `Top-10`, `mid-2026`: a number with a word, or a range. */
const COUNTED =
  /^\d+(?:[.,]\d+)?%?-\p{L}+$|^[\d.,:%-]+$|^\p{L}?\p{Ll}+-\d{1,2}$|^\p{L}?\p{Ll}*-\d{4}$|^\p{L}{1,2}-?\d$|^\d+-?[a-z]{1,2}$/u;
const CODE = /^(?=\D*\d\D*\d)(?=.*\p{L})[\p{Lu}\d]{6,}$/u;

/** A date, a time or a number with its unit: read as numbers. */
const FIGURE =
  /^\d{1,2}\.\d{1,2}\.\d{2,4}$|^\d{4}\.\d{1,2}\.\d{1,2}$|^\d{4}-\d{2}-\d{2}(?:T[\d:.+Z-]*)?$|^[\d.,:]*\d\p{L}{1,3}$/iu;

/** `AWS`; longer runs of capitals are emphasis. */
function isAcronym(text: string): boolean {
  return /^[A-Z]{3,5}$/u.test(text) && !COMMON_NAMES.has(text.toLowerCase());
}

function isIdentifier(text: string): boolean {
  if (FIGURE.test(text)) return false;
  if (text.length < 2 || COMMON_NAMES.has(text.toLowerCase()) || PRODUCT.test(text)) return false;
  if (/^[A-Z]{2,}s$/u.test(text)) return false;
  if (IDENTIFIERS.some((form) => form.test(text))) return true;
  if (CODE.test(text)) return true;
  if (DOTTED.test(text)) return !/^(?:[a-z]\.)+[a-z]$/iu.test(text) && !/\.\p{Lu}\p{Ll}+$/u.test(text.slice(1));
  return KEBAB.test(text) && /\d/u.test(text) && /\p{L}/u.test(text) && !COUNTED.test(text);
}
