/** A value of a placeholder; an array is sent as the text of a PostgreSQL array. */
export type Value = string | number | boolean | null | Uint8Array | readonly (string | number | boolean)[];

/** A part of a statement: the texts around its values, one more than there are values. */
export class Sql {
  readonly texts: readonly string[];
  readonly values: readonly Value[];

  constructor(texts: readonly string[], values: readonly Value[] = []) {
    this.texts = texts;
    this.values = values;
  }
}

/** Tags a template as a part of a statement: values become placeholders, and parts in it are joined in. */
export function sql(strings: readonly string[], ...given: readonly (Value | Sql)[]): Sql {
  const texts = [strings[0] ?? ""];
  const values: Value[] = [];
  for (const [at, one] of given.entries()) {
    const part = one instanceof Sql ? one : new Sql(["", ""], [one]);
    const [first = "", ...rest] = part.texts;
    texts.push(`${texts.pop()}${first}`, ...rest);
    texts.push(`${texts.pop()}${strings[at + 1]}`);
    values.push(...part.values);
  }
  return new Sql(texts, values);
}

/** A part without placeholders: a column, a whole statement. */
export function raw(text: string): Sql {
  return new Sql([text]);
}

/** A statement as the driver takes it. */
export function toStatement({ texts, values }: Sql) {
  return { text: texts.reduce((text, next, at) => `${text}$${at}${next}`), values: values.map(toParameter) };
}

export function toParameter(value: Value): string | number | boolean | null | Uint8Array {
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  return `{${value.map((one) => (typeof one === "string" ? quoted(one) : String(one))).join(",")}}`;
}

/** Quoted as in PostgreSQL arrays. JSON quotes the same except control characters, twenty times as fast; most values are JSON. */
function quoted(text: string): string {
  const isAlike = !CONTROL.test(text) && text.isWellFormed();
  return isAlike ? JSON.stringify(text) : `"${text.replace(/["\\]/g, "\\$&")}"`;
}

const CONTROL = /\p{Cc}/u;
