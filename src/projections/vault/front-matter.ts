/** A Markdown file: what its front matter says, by key, and the text below it. */
export interface Markdown {
  readonly fields: ReadonlyMap<string, string>;
  readonly body: string;
}

/** Undefined leaves the line out; an object stands in it as JSON. */
export type Field = string | number | Readonly<Record<string, unknown>> | undefined;

/** The text of a file. `parseMarkdown` gives the body back character by character, whatever it begins with. */
export function toMarkdown(fields: Readonly<Record<string, Field>>, body: string): string {
  const lines = Object.entries(fields).flatMap(([key, field]) =>
    field === undefined ? [] : [`${key}: ${fieldText(field)}\n`],
  );
  return `---\n${lines.join("")}---\n\n${body}`;
}

/** Text that only looks like front matter, such as lines between two rules, belongs to the body. */
export function parseMarkdown(text: string): Markdown {
  return withFrontMatter(text) ?? { fields: new Map(), body: text };
}

/** Begins and ends with what no YAML reader takes for a mark, and has neither `: ` nor a comment inside. */
const PLAIN = /^[\p{L}\p{N}](?:[^\p{C}\p{Zl}\p{Zp}#:]|:(?!\s|$))*(?<!\s)$/u;

function fieldText(field: Exclude<Field, undefined>): string {
  if (typeof field === "string") return PLAIN.test(field) ? field : JSON.stringify(field);
  return JSON.stringify(field);
}

const RULE = "---";
const FIRST_LINE = /^---[ \t]*\r?\n/;
const FIELD = /^([\p{L}_][\p{L}\p{N}_.-]*)[ \t]*:(?:[ \t]+([^ \t].*)?)?$/su;
const BLANK_OR_COMMENT = /^\s*(?:#|$)/;
/** A list below a key, or a value that goes on. */
const CONTINUATION = /^(?:[ \t]|-[ \t])/;

function withFrontMatter(text: string): Markdown | undefined {
  const fields = new Map<string, string>();
  let last: string | undefined;
  let at = FIRST_LINE.exec(text)?.[0].length ?? text.length;
  while (at < text.length) {
    const newline = text.indexOf("\n", at);
    const end = newline === -1 ? text.length : newline;
    const line = text.slice(at, end).trimEnd();
    at = end + 1;
    if (line === RULE) return fields.size === 0 ? undefined : { fields, body: text.slice(at).replace(/^\r?\n/, "") };
    if (BLANK_OR_COMMENT.test(line)) continue;
    const [, key, value = ""] = FIELD.exec(line) ?? [];
    if (key !== undefined) {
      fields.set(key, unquoted(value));
      last = key;
    } else if (last !== undefined && CONTINUATION.test(line)) {
      fields.set(last, `${fields.get(last)}\n${line.trim()}`.trimStart());
    } else return undefined;
  }
  return undefined;
}

function unquoted(value: string): string {
  if (/^'.*'$/s.test(value)) return value.slice(1, -1).replaceAll("''", "'");
  const parsed = value.startsWith('"') ? parseJson(value) : undefined;
  return typeof parsed === "string" ? parsed : value;
}

/** Undefined for what is no JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
