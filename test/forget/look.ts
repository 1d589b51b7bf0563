// Looks for texts in the files of a folder by reading each of them in many ways, as whole strings: slow, plain, and with
// nothing of the scan that it checks. `node test/forget/look.ts <folder> <text>…` prints what it finds.
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { gunzipSync, zstdDecompressSync } from "node:zlib";

export interface Sighting {
  readonly file: string;
  readonly text: number;
  readonly form: string;
}

/** Every text in every file below a folder, once a form. */
export function lookFor(folder: string, texts: readonly string[]): readonly Sighting[] {
  const sightings: Sighting[] = [];
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const file = relative(folder, path);
    const views = [...viewsOf(Buffer.from(entry.name), "name")];
    if (entry.isFile()) views.push(...filesViews(readFileSync(path)));
    for (const [text, form] of sightingsIn(views, texts)) sightings.push({ file, text, form });
  }
  return sightings;
}

interface View {
  readonly form: string;
  readonly text: string;
}

function sightingsIn(views: readonly View[], texts: readonly string[]): readonly (readonly [number, string])[] {
  const wanted = texts.map(bare);
  const found = new Map<string, readonly [number, string]>();
  for (const { form, text } of views) {
    const seen = bare(text);
    for (const [at, one] of wanted.entries()) if (seen.includes(one)) found.set(`${at} ${form}`, [at, form]);
  }
  return [...found.values()];
}

/** Without what does not count: case, composition, the kind of white space, backslashes. */
function bare(text: string): string {
  return text.normalize("NFC").toLowerCase().replaceAll("\\", "").replace(/\s+/g, " ").trim();
}

function* filesViews(bytes: Buffer): Iterable<View> {
  yield* viewsOf(bytes, "");
  const line = bytes.subarray(0, 1_000).indexOf(10) + 1;
  for (const start of [0, line]) {
    for (const unpack of [gunzipSync, zstdDecompressSync]) {
      const inside = attempt(() => unpack(bytes.subarray(start)));
      if (inside !== undefined) yield* viewsOf(inside, "packed ");
    }
  }
}

function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

function* viewsOf(bytes: Buffer, prefix: string): Iterable<View> {
  const text = bytes.toString("utf8");
  yield* writtenViews(text, `${prefix}text`);
  for (const start of [0, 1]) {
    const even = bytes.subarray(start, start + ((bytes.length - start) & ~1));
    yield { form: `${prefix}utf-16 le`, text: even.toString("utf16le") };
    yield { form: `${prefix}utf-16 be`, text: Buffer.from(even).swap16().toString("utf16le") };
  }
  const joined = text.replace(/\\+[nr]|\s+/g, "").replace(/\\+\//g, "/");
  // Joined, and as it stands: what ends with a line and what goes on after it.
  for (const source of [joined, text]) {
    for (const [run] of source.matchAll(/[A-Za-z0-9+/_-]{6,}/g)) {
      for (const start of [0, 1, 2, 3]) {
        yield* writtenViews(Buffer.from(run.slice(start), "base64").toString("utf8"), `${prefix}base64`);
      }
    }
  }
  for (const [run] of text.matchAll(/[0-9a-fA-F]{8,}/g)) {
    for (const start of [0, 1]) {
      const even = run.slice(start, start + ((run.length - start) & ~1));
      yield* writtenViews(Buffer.from(even, "hex").toString("utf8"), `${prefix}hex`);
    }
  }
}

const LEVELS = 4;

/** A text as it is, and with its escapes undone again and again. */
function* writtenViews(text: string, form: string): Iterable<View> {
  yield { form, text };
  for (const undo of [unescaped, unreferenced, unpercented]) {
    let before = text;
    for (let level = 0; level < LEVELS; level += 1) {
      const after = undo(before);
      if (after === before) break;
      yield { form: `${form}, ${undo.name}`, text: after };
      before = after;
    }
  }
}

function unescaped(text: string): string {
  const white: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", f: "\f", b: "\b" };
  return text.replace(/\\(?:u([0-9a-fA-F]{4})|(.))/g, (_, hex: string | undefined, sign: string) =>
    hex === undefined ? (white[sign] ?? sign) : String.fromCharCode(Number.parseInt(hex, 16)),
  );
}

function unreferenced(text: string): string {
  const named: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " " };
  return text
    .replace(/&#(\d{1,6});/g, (_, digits: string) => String.fromCodePoint(Number(digits)))
    .replace(/&#x([0-9a-f]{1,5});/gi, (_, digits: string) => String.fromCodePoint(Number.parseInt(digits, 16)))
    .replace(/&(amp|lt|gt|quot|apos|nbsp);/g, (_, name: string) => named[name] ?? "");
}

function unpercented(text: string): string {
  const bytes = text.replaceAll("+", " ").replace(/(?:%[0-9a-fA-F]{2})+/g, (run) => {
    return Buffer.from(run.replaceAll("%", ""), "hex").toString("utf8");
  });
  return bytes;
}

if (import.meta.main) {
  const [folder = ".", ...texts] = process.argv.slice(2);
  for (const { file, text, form } of lookFor(folder, texts)) process.stdout.write(`${file}: text ${text} as ${form}\n`);
}
