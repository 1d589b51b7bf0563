import { connect } from "../support/postgres-server.ts";

/** Every cell of every table, as text: what holds one of the texts, told by its table and column. */
export async function lookInDatabase(url: string, texts: readonly string[]): Promise<readonly string[]> {
  const client = await connect(url);
  try {
    const columns = await client.query<Record<"table_schema" | "table_name" | "column_name" | "data_type", string>>(
      `select table_schema, table_name, column_name, data_type from information_schema.columns
      where table_schema not in ('pg_catalog', 'information_schema')`,
    );
    const found: string[] = [];
    for (const { table_schema, table_name, column_name, data_type } of columns.rows) {
      const place = `"${table_schema}"."${table_name}"`;
      const cell = data_type === "bytea" ? `encode("${column_name}", 'escape')` : `"${column_name}"::text`;
      const { rows } = await client.query<{ cell: string | null }>(`select ${cell} as cell from ${place}`);
      for (const { cell: said } of rows) {
        const bare = (said ?? "").replaceAll("\\", "").toLowerCase();
        for (const text of texts) if (bare.includes(text.toLowerCase())) found.push(`${place} ${column_name}`);
      }
    }
    return found;
  } finally {
    await client.end();
  }
}
