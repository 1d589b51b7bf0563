import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type EntryBody, openEmbeddedStore, type Store } from "@rkat/node";
import { Pool } from "pg";
import { openPostgresStore } from "../test/support/postgres-store.ts";
import { converse } from "./conversation.ts";
import { openModelServer } from "./model-server.ts";
import { median } from "./report.ts";
import { createRkat } from "./rkat.ts";

const CONNECTIONS = 8;
/** Many and short, and each begins with the other: a machine that does something else then slows both down. */
const ROUNDS = 15;
/** Of a round, by sessions: one that waits for every commit is slow. */
const APPENDS: Readonly<Record<number, number>> = { 1: 100, 16: 800, 256: 2_560 };

export interface Speed {
  readonly sessions: number;
  readonly bare: number;
  readonly rkat: number;
  /** The middle one of the rounds: what else the machine does changes from one to the next. */
  readonly ratio: number;
}

/** Appends per second, and those of a loop of inserts with as many connections. */
export async function measureAppends(url: string): Promise<readonly Speed[]> {
  const pool = new Pool({ connectionString: url, max: CONNECTIONS });
  await pool.query("create table if not exists bare (id text, seq bigint, body text, primary key (id, seq))");
  const store = await openPostgresStore({ url, realm: "appends", poolMax: CONNECTIONS });
  const body = bodyOf("x".repeat(120));
  const ends = new Map<string, number>();
  const json = JSON.stringify(body);
  const insert = (id: string, seq: number): Promise<unknown> =>
    pool.query({
      name: "insert",
      text: "insert into bare (id, seq, body) values ($1, $2, $3)",
      values: [id, seq, json],
    });
  const append = (id: string, seq: number): Promise<unknown> => store.log.append(id, seq - 1, [{ span: 1, body }]);

  const speedOf = async (sessions: number, write: (id: string, seq: number) => Promise<unknown>, name: string) => {
    const appends = APPENDS[sessions] ?? 1_000;
    const startedMs = performance.now();
    await Promise.all(
      Array.from({ length: sessions }, async (_, session) => {
        const id = `${name}-${session}`;
        for (let done = 0; done < appends; done += sessions) {
          const seq = (ends.get(id) ?? 0) + 1;
          await write(id, seq);
          ends.set(id, seq);
        }
      }),
    );
    return (appends * 1_000) / (performance.now() - startedMs);
  };
  const speeds: Speed[] = [];
  for (const sessions of Object.keys(APPENDS).map(Number)) {
    const rounds: { bare: number; rkat: number }[] = [];
    for (let round = 0; round <= ROUNDS; round += 1) {
      const isBareFirst = round % 2 === 0;
      const before = isBareFirst ? await speedOf(sessions, insert, "bare") : 0;
      const rkat = await speedOf(sessions, append, "rkat");
      rounds.push({ bare: isBareFirst ? before : await speedOf(sessions, insert, "bare"), rkat });
    }
    const counted = rounds.slice(1);
    speeds.push({
      sessions,
      bare: median(counted.map(({ bare }) => bare)),
      rkat: median(counted.map(({ rkat }) => rkat)),
      ratio: median(counted.map(({ bare, rkat }) => rkat / bare)),
    });
  }
  await Promise.all([pool.end(), store.close()]);
  return speeds;
}

function bodyOf(text: string): EntryBody {
  const created_at = "2026-01-01T00:00:00.000Z";
  const blocks = [{ block_type: "text" as const, data: { text } }];
  return { kind: "assistant", message: { role: "block_assistant", blocks, stop_reason: "end_turn", created_at } };
}

const TURNS = 40;
const TURN_ROUNDS = 5;

export interface TurnCost {
  readonly name: string;
  readonly cpuMs: number;
}

/** CPU time of a turn in this process: question, tool call, result, answer, of a model behind a wire. */
export async function measureTurns(url: string): Promise<readonly TurnCost[]> {
  const folder = mkdtempSync(join(tmpdir(), "rkat-bench-postgres-"));
  const model = await openModelServer();
  const stores: Readonly<Record<string, Store>> = {
    embedded: await openEmbeddedStore(folder),
    PostgreSQL: await openPostgresStore({ url, realm: "turns" }),
  };
  const contenders = Object.entries(stores).map(([name, store]) => createRkat(model.baseUrl, { name, store }));
  const costs = new Map<string, number[]>(contenders.map(({ name }) => [name, []]));
  for (let round = 0; round <= TURN_ROUNDS; round += 1) {
    for (const contender of contenders) {
      const before = process.cpuUsage();
      await converse(contender, TURNS);
      const { user, system } = process.cpuUsage(before);
      if (round > 0) costs.get(contender.name)?.push((user + system) / 1_000 / TURNS);
    }
  }
  for (const store of Object.values(stores)) await store.close();
  model.close();
  rmSync(folder, { recursive: true, force: true });
  return [...costs].map(([name, values]) => ({ name, cpuMs: median(values) }));
}
