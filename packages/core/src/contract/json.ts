export type JsonTable = Readonly<Record<string, unknown>>;

/** True of a plain object, not of a list or of what a parser makes of a date. */
export function isJsonTable(value: unknown): value is JsonTable {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** True of every object that is no list: what JSON calls an object, and what is made of classes. */
export function isRecord(value: unknown): value is JsonTable {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value of a JSON text; undefined for a text that is none. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The characters of a value as JSON; more than any limit if it is too deep, in a circle, or otherwise cannot be written. */
export function jsonChars(value: unknown): number {
  try {
    return (JSON.stringify(value) ?? "").length;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** The fields that have a value, to be spread: on a wire, absent and undefined differ. */
export function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  // `as`: exactly the undefined values were dropped.
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
