import connect from "postgres";

/** Every cell of every table, as text: what holds one of the texts, told by its table and column. */
export async function lookInDatabase(url: string, texts: readonly string[]): Promise<readonly string[]> {
  const sql = connect(url, { onnotice: () => {} });
  try {
    const columns = await sql<{ table_schema: string; table_name: string; column_name: string; data_type: string }[]>`
      select table_schema, table_name, column_name, data_type from information_schema.columns
      where table_schema not in ('pg_catalog', 'information_schema')`;
    const found: string[] = [];
    for (const { table_schema, table_name, column_name, data_type } of columns) {
      const place = `"${table_schema}"."${table_name}"`;
      const cell = data_type === "bytea" ? `encode("${column_name}", 'escape')` : `"${column_name}"::text`;
      const rows = await sql.unsafe<{ cell: string | null }[]>(`select ${cell} as cell from ${place}`);
      for (const { cell: said } of rows) {
        const bare = (said ?? "").replaceAll("\\", "").toLowerCase();
        for (const text of texts) if (bare.includes(text.toLowerCase())) found.push(`${place} ${column_name}`);
      }
    }
    return found;
  } finally {
    await sql.end();
  }
}
