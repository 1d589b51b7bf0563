/** A row of a table that others wrote: `constructor`, which every object has, is none. */
export function rowOf<Row>(table: Readonly<Record<string, Row>> | undefined, name: string): Row | undefined {
  return table !== undefined && Object.hasOwn(table, name) ? table[name] : undefined;
}
