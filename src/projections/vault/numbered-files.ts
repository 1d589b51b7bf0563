import { join } from "node:path";
import { type Markdown, parseMarkdown } from "./front-matter.ts";
import { readMarkdown, type VaultParts } from "./read-markdown.ts";
import { replace } from "./vault-calls.ts";

const DIGITS_MIN = 6;

export function numberedName(number: number): string {
  return `${stemOf(number)}.md`;
}

/** Undefined for a name that no number has. */
export function numberOf(name: string): number | undefined {
  const number = Number.parseInt(name, 10);
  return number > 0 && name.toLowerCase() === numberedName(number) ? number : undefined;
}

/** Writes the file of a number. What a person put in its place is moved aside, not written over. */
export async function writeNumbered(
  parts: VaultParts,
  folder: string,
  { number, text }: { readonly number: number; readonly text: string },
): Promise<void> {
  const name = numberedName(number);
  const path = join(folder, name);
  if ((await parts.io.size(path)) !== undefined) {
    const there = await readMarkdown(parts, path);
    // Ours are written once; one that says something else was put there, perhaps from the folder of another agent.
    if (there === undefined || !isOurs(name, there) || there.body !== parseMarkdown(text.toWellFormed()).body) {
      const aside = join(folder, `${stemOf(number)}-found.md`);
      await parts.io.rename(path, aside);
      parts.warn(`${path} was somebody's own file; it is ${aside} now`);
    }
  }
  await replace(parts.io, path, text);
}

/** Files a person wrote, by name. */
export async function handWritten(
  parts: VaultParts,
  folder: string,
  ending: RegExp,
): Promise<readonly (Markdown & { readonly name: string })[]> {
  const names = (await parts.io.list(folder)).filter((name) => ending.test(name) && !name.startsWith("."));
  // Numbers have no gaps. One beyond their count may be a date, so the file itself must tell.
  const count = names.filter((name) => numberOf(name) !== undefined).length;
  const files: (Markdown & { name: string })[] = [];
  for (const name of names.filter((one) => (numberOf(one) ?? Number.POSITIVE_INFINITY) > count).sort(byName)) {
    const markdown = await readMarkdown(parts, join(folder, name));
    if (markdown === undefined || isOurs(name, markdown) || markdown.body.trim() === "") continue;
    files.push({ name, ...markdown });
  }
  return files;
}

export function isOurs(name: string, { fields }: Markdown): boolean {
  const number = numberOf(name);
  return number !== undefined && fields.get("seq") === String(number);
}

function stemOf(number: number): string {
  return String(number).padStart(DIGITS_MIN, "0");
}

const collator = new Intl.Collator("en", { numeric: true });

function byName(a: string, b: string): number {
  return collator.compare(a, b) || (a < b ? -1 : 1);
}
