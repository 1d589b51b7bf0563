/** Something of another's making, to be read by name and believed in nothing. */
export type Loose = Readonly<Record<string, unknown>>;

/** What is no object has no names. */
export function asRecord(value: unknown): Loose {
  return typeof value === "object" && value !== null ? (value as Loose) : {}; // any object may be read by name
}
