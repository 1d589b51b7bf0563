import { toNewEntries } from "@rkat/core/state/entry-events";
import { toParameter } from "@rkat/postgres/sql";
import { expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { created, idOf, said } from "../support/entries.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { connect } from "../support/postgres-server.ts";
import { openPostgresStore } from "../support/postgres-store.ts";
import { fc } from "../support/property.ts";

const LONG_MS = 120_000;

withPostgres("texts in a database", () => {
  it("[F11] [H5] come back from an array as they were, whatever they are made of", async () => {
    const client = await connect(await databaseFor("texts"));
    const signs = fc.constantFrom(
      '"',
      "\\",
      "{",
      "}",
      ",",
      "NULL",
      "\n",
      "\t",
      "\u0001",
      "\u0085",
      "\u2028",
      " ",
      "é",
      "🦦",
    );
    const text = fc.oneof(fc.string({ unit: signs }), fc.string({ unit: "grapheme" }));
    const property = fc.asyncProperty(fc.array(text), async (texts) => {
      const all = "select one from unnest($1::text[]) with ordinality as t (one, at) order by at";
      const { rows } = await client.query<{ one: string }>(all, [toParameter(texts)]);
      expect(rows.map(({ one }) => one)).toEqual(texts);
    });
    await fc.assert(property, { numRuns: byEffort({ usual: 200, full: 5_000 }) });
    await client.end();
  });

  it(
    "[F11] [H5] are kept when they are long and all of it must be quoted",
    async () => {
      const store = await openPostgresStore({ url: await databaseFor("texts"), realm: "texts" });
      const long = '"\\'.repeat(10_000_000);
      await store.log.append(idOf(1), 0, toNewEntries([created, said(long)]));
      const [, kept] = await store.log.read(idOf(1), 1, 2);
      // As one answer: what differs would be shown whole.
      expect(JSON.stringify(kept?.body) === JSON.stringify(said(long))).toBe(true);
      await store.close();
    },
    LONG_MS,
  );
});
