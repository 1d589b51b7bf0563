/** What a placeholder of a statement may stand for; an array is sent as the text of an array of the database. */
export type Value = string | number | boolean | null | Uint8Array | readonly (string | number | boolean)[];

/** A statement, or a part of one: the text around its values. There is one text more than there are values. */
export class Sql {
  readonly texts: readonly string[];
  readonly values: readonly Value[];

  constructor(texts: readonly string[], values: readonly Value[] = []) {
    this.texts = texts;
    this.values = values;
  }

  /** As the database reads it, with numbered placeholders. */
  get text(): string {
    return this.texts.reduce((text, next, at) => `${text}$${at}${next}`);
  }
}

/** A statement as a tagged template: values become placeholders, and parts made by `sql` or `raw` are joined in. */
export function sql(strings: TemplateStringsArray, ...given: readonly (Value | Sql)[]): Sql {
  const texts = [strings[0] ?? ""];
  const values: Value[] = [];
  for (const [at, one] of given.entries()) {
    const [first = "", ...rest] = one instanceof Sql ? one.texts : ["", ""];
    values.push(...(one instanceof Sql ? one.values : [one]));
    texts.push(`${texts.pop()}${first}`, ...rest);
    texts.push(`${texts.pop()}${strings[at + 1]}`);
  }
  return new Sql(texts, values);
}

/** A part of a statement as it is: a keyword, a column, a whole statement without values. */
export function raw(text: string): Sql {
  return new Sql([text]);
}

export function join(parts: readonly Sql[], separator: string): Sql {
  return parts.reduce((joined, part) => sql`${joined}${raw(separator)}${part}`);
}

/** A value as the driver sends it. */
export function toParameter(value: Value): string | number | boolean | null | Uint8Array {
  if (!isArray(value)) return value;
  const written = value.map((one) => (typeof one === "string" ? quoted(one) : String(one)));
  return `{${written.join(",")}}`;
}

// TypeScript does not narrow a union with a readonly array by `Array.isArray`.
function isArray(value: Value): value is readonly (string | number | boolean)[] {
  return Array.isArray(value);
}

/** As arrays of the database quote. JSON quotes the same except for control characters, twenty times as fast: most texts are JSON. */
function quoted(text: string): string {
  const isAlike = !CONTROL.test(text) && text.isWellFormed();
  return isAlike ? JSON.stringify(text) : `"${text.replace(/["\\]/g, "\\$&")}"`;
}

const CONTROL = /\p{Cc}/u;
