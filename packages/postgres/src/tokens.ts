import { Token } from "@rkat/core/contract/caller";
import type { TokenStore } from "@rkat/core/ports/token-store";
import { createLook } from "./connection.ts";
import type { Database } from "./open.ts";

const LOOK_MS = 500;

/** The tokens of a realm as rows, the same for every server of it. Closing it closes the database. */
export async function openTokens({ connection, realm, close }: Database): Promise<TokenStore> {
  let state = "";
  let names = 0;
  let tokens: readonly Token[] = [];
  const load = async (): Promise<void> => {
    const rows = await connection.query<{ kept: string | null }>`
      select kept from rkat.tokens where realm = ${realm} order by name`;
    const now = rows.map(({ kept }) => kept ?? "").join("\n");
    names = rows.length;
    if (now === state) return;
    state = now;
    tokens = rows.flatMap(({ kept }) => (kept === null ? [] : (Token.safeParse(JSON.parse(kept)).data ?? [])));
  };
  await load();
  const look = createLook(load);
  const timer = setInterval(look.request, LOOK_MS).unref();
  return {
    isInUse: () => names > 0,
    read: () => tokens,
    state: () => state,
    add: async (token) => {
      const added = await connection.query`
        insert into rkat.tokens as t (realm, name, kept) values (${realm}, ${token.name}, ${JSON.stringify(token)})
        on conflict (realm, name) do update set kept = excluded.kept where t.kept is null or t.kept = excluded.kept
        returning name`;
      await load();
      return added.length > 0;
    },
    remove: async (name) => {
      const removed = await connection.query`
        update rkat.tokens set kept = null where realm = ${realm} and name = ${name} and kept is not null
        returning name`;
      await load();
      return removed.length > 0;
    },
    close: async () => {
      clearInterval(timer);
      await look.settled();
      await close();
    },
  };
}
