/** Values that were kept, by their names. */
export type Kept = ReadonlyMap<string, unknown>;

const WHOLE = /^\{(\w+)\}$/;
const INSIDE = /\{(\w+)\}/g;

/** The value with what was kept in the place of each `{name}`. */
export function filled(value: unknown, kept: Kept): unknown {
  if (typeof value === "string") return filledText(value, kept);
  if (Array.isArray(value)) return value.map((element) => filled(element, kept));
  if (typeof value !== "object" || value === null || value instanceof RegExp) return value;
  return Object.fromEntries(Object.entries(value).map(([field, inside]) => [field, filled(inside, kept)]));
}

/** A text that is nothing but a name becomes the value itself, such as a number. */
function filledText(text: string, kept: Kept): unknown {
  const [, whole] = WHOLE.exec(text) ?? [];
  if (whole !== undefined && kept.has(whole)) return kept.get(whole);
  return text.replaceAll(INSIDE, (written, name: string) => (kept.has(name) ? String(kept.get(name)) : written));
}

/** What lies at a path of fields joined by dots. */
export function valueAt(value: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((inside, field) => Object(inside)[field], value);
}
