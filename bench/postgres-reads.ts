import { setTimeout as sleep } from "node:timers/promises";
import { createRuntime, createScriptedModel, type Store } from "@rkat/node";
import { labelsOf } from "@rkat/postgres/rows";
import type { Client } from "pg";
import { type CutProxy, openCutProxy } from "../test/support/cut-proxy.ts";
import { connect, type PostgresServer } from "../test/support/postgres-server.ts";
import { openPostgresStore } from "../test/support/postgres-store.ts";
import { median } from "./report.ts";

const TURNS = 20;

export interface RoundTrips {
  /** What a session that this process does not know costs to be read. */
  readonly read: number;
  /** From the call of a turn to the model's first request: read, held, and its opening appended. */
  readonly turn: number;
}

/** Questions asked of the database to go on with a session that another process has written, counted on the wire. */
export async function countRoundTrips(url: string): Promise<RoundTrips> {
  const realm = "resume";
  const model = createScriptedModel(() => ({ text: "Yes." }));
  const writer = createRuntime({ store: await openPostgresStore({ url, realm }), model, env: {} });
  const ids: string[] = [];
  for (let session = 0; session < 4; session += 1) {
    const { id } = await writer.createSession("Begin.");
    for (let turn = 1; turn < TURNS; turn += 1) await writer.session(id).turn("And now?");
    ids.push(id);
  }
  await writer.close();

  const proxy = await openCutProxy(Number(new URL(url).port));
  let askedAtModel = 0;
  const watched = createScriptedModel(() => {
    askedAtModel = proxy.asked;
    return { text: "Yes." };
  });
  // One connection that knows all statements already: a process does not stay new.
  const store = await openPostgresStore({ url: proxy.urlOf(url), realm, poolMax: 1, leaseMs: 3_600_000 });
  const runtime = createRuntime({ store, model: watched, env: {} });
  const [first = "", second = "", third = "", fourth = ""] = ids;
  await runtime.session(first).history();
  await runtime.session(second).turn("And now?");
  const beforeRead = await askedWhenQuiet(proxy);
  await runtime.session(third).history();
  const read = proxy.asked - beforeRead;
  const beforeTurn = await askedWhenQuiet(proxy);
  await runtime.session(fourth).turn("And now?");
  const turn = askedAtModel - beforeTurn;
  await runtime.close();
  await proxy.close();
  return { read, turn };
}

const QUIET_MS = 500;

/** What was asked once nothing more is: words to other processes are said a little after what they tell of. */
async function askedWhenQuiet(proxy: CutProxy): Promise<number> {
  for (let asked = proxy.asked; ; asked = proxy.asked) {
    await sleep(QUIET_MS);
    if (asked === proxy.asked) return asked;
  }
}

const SESSIONS = Number(process.env.RKAT_BENCH_SESSIONS ?? 1_000_000);
const PAGE = 50;
const PAGES = 15;

export interface ListTime {
  readonly what: string;
  /** What the database took, by its own clock: to parse, plan and run. */
  readonly ms: number;
}

/** Pages of a list of a million sessions. */
export async function measureLists(server: PostgresServer): Promise<readonly ListTime[]> {
  const url = await server.createDatabase("lists");
  const realm = "lists";
  await (await openPostgresStore({ url, realm })).close();
  const client = await connect(url);
  await fill(client, realm);
  // What each statement took is in the server's log.
  await client.query("alter database lists set log_min_duration_statement = 0");
  await client.end();
  const store = await openPostgresStore({ url, realm, poolMax: 1 });
  const middle = { updated_at_ms: SESSIONS / 2, session_id: idAt(SESSIONS / 2) };
  const queries: Readonly<Record<string, Parameters<Store["sessions"]["page"]>[0]>> = {
    "the first page": { archived: false, max: PAGE },
    "a page from the middle": { archived: false, max: PAGE, after: middle },
    "archived or not": { max: PAGE },
    "with a label of one in ten": { archived: false, max: PAGE, labels: { tenth: "3" } },
    "with a label of one in 10,000": { archived: false, max: PAGE, labels: { rare: "77" } },
    "that wait for a word (one in 10,000)": { archived: false, max: PAGE, waiting: true },
  };
  const times: ListTime[] = [];
  for (const [what, query] of Object.entries(queries)) {
    const values: number[] = [];
    for (let page = 0; page < PAGES; page += 1) {
      const before = server.lastWords();
      const rows = await store.sessions.page(query);
      if (rows.length === 0) throw new Error(`a page ${what} has ${rows.length} rows`);
      values.push(await durationAfter(server, before));
    }
    // The first few are parsed and planned by themselves, and find nothing in memory.
    times.push({ what, ms: median(values.slice(PAGES >> 1)) });
  }
  await store.close();
  return times;
}

function idAt(number: number): string {
  return `01900000-0000-7000-8000-${number.toString(16).padStart(12, "0")}`;
}

/** Rows as they are after a short session, made by the database: a million appends would take an hour. */
async function fill(client: Client, realm: string): Promise<void> {
  const usage = { input_tokens: 10, output_tokens: 5 };
  const row = {
    created_at_ms: 0,
    message_count: 2,
    has_system: false,
    total_tokens: 15,
    usage,
    spent: [{ day: "2026-01-01", model: "offline", calls: 1, usage }],
    model: "offline",
    provider: "offline",
    title: "What is there to be done today?",
    text_seq: 3,
    has_open_turn: false,
    cadence: { compactions: 0 },
  };
  const [tenth, rare] = labelsOf(realm, { tenth: "TENTH", rare: "RARE" });
  // Indexes are quicker made of all rows at once than row by row.
  const indexes = await client.query<{ name: string; made: string }>(
    `select indexname as name, indexdef as made from pg_indexes
    where schemaname = 'rkat' and tablename = 'sessions' and indexdef not like '%UNIQUE%'`,
  );
  for (const { name } of indexes.rows) await client.query(`drop index rkat.${name}`);
  await client.query(
    `
    insert into rkat.sessions
      (realm, id, kind, last_seq, memory_seq, updated_at_ms, is_archived, waiting_calls, labels, folded)
    select $1, id, 'session', 5, 5, n, is_archived, waiting,
      array[replace($2, 'TENTH', tenth), replace($3, 'RARE', rare)],
      ($4::text::jsonb || jsonb_build_object(
        'session_id', id, 'last_seq', 5, 'updated_at_ms', n, 'archived', is_archived, 'waiting_calls', waiting,
        'labels', jsonb_build_object('tenth', tenth, 'rare', rare)))::text
    from (
      select n, '01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0') as id, n % 20 = 0 as is_archived,
        case when n % 10000 = 1 then 1 else 0 end as waiting, (n % 10)::text as tenth, (n % 10000)::text as rare
      from generate_series(1, $5::bigint) as n
    ) as numbered`,
    [realm, tenth, rare, JSON.stringify(row), SESSIONS],
  );
  for (const { made } of indexes.rows) await client.query(made);
  await client.query("vacuum analyze rkat.sessions");
}

const WORDS_MS_MAX = 5_000;

/** What the log says that the statements since `before` took together. */
async function durationAfter(server: PostgresServer, before: string): Promise<number> {
  const untilMs = performance.now() + WORDS_MS_MAX;
  const seen = before.slice(-200);
  while (performance.now() < untilMs) {
    const words = server.lastWords();
    const since = words.slice(words.lastIndexOf(seen) + seen.length);
    const took = [...since.matchAll(/duration: ([\d.]+) ms {2}(parse|bind|execute)/g)];
    if (took.some(([, , step]) => step === "execute") && since.endsWith("\n"))
      return took.reduce((sum, [, ms]) => sum + Number(ms), 0);
    await sleep(5);
  }
  throw new Error("the server's log does not tell what statements took");
}
