import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { type AgentRow, foldAgent } from "@rkat/core/agent-memory/tiers";
import type { AgentEntryBody } from "@rkat/core/contract/agent";
import type { Entry, EntryBody } from "@rkat/core/contract/entry";
import type { LogRow, Store } from "@rkat/core/ports/store";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { foldRow } from "@rkat/core/state/session-row";
import { openStore } from "@rkat/node/log/open";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { openDatabase } from "@rkat/postgres/open";
import { below, chance, pick } from "../compaction/chances.ts";
import { randomEntries } from "../compaction/random-entries.ts";
import { createRandom } from "../crash/random.ts";
import { created, idOf } from "../support/entries.ts";

const host = { pid: process.pid, isRunning: () => true };

/** Keys and values as people and programs make them. */
const ODD_LABELS: readonly Readonly<Record<string, string>>[] = [
  {},
  { team: "a" },
  { 'quo"te\\': "back\\slash {brace}, comma", "": "empty key" },
  { "🦦 \u0000": "\ud800 lone", "line\nbreak": "tab\tand 'quotes'" },
  { __proto__x: "null", "sha256:": "日本語" },
];

const begun = (labels: Readonly<Record<string, string>>): EntryBody =>
  created.kind === "session_created" ? { ...created, settings: { ...created.settings, labels } } : created;

/** Fills a state folder with sessions, agents, blobs and a configuration; the same of the same chances. */
export async function fillFolder(
  folder: string,
  random: () => number,
  counts: { readonly sessions: number; readonly agents: number; readonly blobs: number; readonly turnsMax: number },
): Promise<void> {
  const store = await openEmbeddedStore(folder);
  await Promise.all(
    Array.from({ length: counts.sessions }, (_, number) => fillSession(store, idOf(number), random, counts.turnsMax)),
  );
  for (let number = 0; number < counts.blobs; number += 1) {
    const data = new TextEncoder().encode(`blob ${number} ${"x".repeat(below(random, 5_000))}\u0000`);
    await store.blobs.put({ mediaType: pick(random, ["text/plain; charset=utf-8", "image/png"]) ?? "", data });
  }
  await store.close();
  writeFileSync(join(folder, "config.toml"), '[agent]\nmodel = "offline"\n\n[budget]\nmax_tokens = 9_000\n');
  if (counts.agents === 0) return;
  const agents = openStore({ folder: join(folder, "agents"), foldRow: foldAgent, host });
  for (let number = 1; number <= counts.agents; number += 1) await fillAgent(agents, number, random);
  await agents.close();
}

/** Fills a state folder with a little of everything that a realm keeps, written by hand too. */
export async function fillRealm(folder: string, seed: number): Promise<void> {
  await fillFolder(folder, createRandom(seed), { sessions: 12, agents: 2, blobs: 5, turnsMax: 4 });
  mkdirSync(join(folder, ".rkat/agents/agent-1/notes"), { recursive: true });
  writeFileSync(join(folder, ".rkat/agents/agent-1/notes", `${"long ".repeat(30)}ü.md`), "written by hand");
  mkdirSync(join(folder, "tokens"));
  writeFileSync(join(folder, "tokens/web.json"), "{}\n");
}

async function fillSession(store: Store, id: string, random: () => number, turnsMax: number): Promise<void> {
  const bodies = [begun(pick(random, ODD_LABELS) ?? {}), ...randomEntries(random, 0, { turnsMax, isWordless: true })];
  if (chance(random, 0.2)) bodies.push({ kind: "archived" });
  let atMs = 1_700_000_000_000 + below(random, 1_000_000);
  let seq = 0;
  for (let at = 0; at < bodies.length; ) {
    const many = 1 + below(random, 4);
    // Some appends are of the same moment, and clocks also go back.
    atMs += pick(random, [0, 0, 1, 17, -5]) ?? 0;
    const last = (await store.log.append(id, seq, toNewEntries(bodies.slice(at, at + many)), atMs)).at(-1);
    seq = last === undefined ? seq : last.seq + last.span - 1;
    at += many;
  }
}

async function fillAgent(agents: Store<AgentEntryBody, AgentRow>, number: number, random: () => number): Promise<void> {
  const agent = `agent-${number}`;
  const many = 1 + below(random, 30);
  for (let memory = 1; memory <= many; memory += 1) {
    const body: AgentEntryBody = { kind: "memory_added", agent, number: memory, content: `memory ${memory} 🦦\u0000` };
    await agents.log.append(idOf(1_000_000 + number), memory - 1, [{ span: 1, body }], 1_700_000_000_000 + memory);
  }
}

/** Everything a place keeps, to be compared. */
export interface Everything {
  readonly sessions: ReadonlyMap<string, readonly Entry[]>;
  readonly rows: readonly LogRow[];
  readonly agents: ReadonlyMap<string, readonly Entry<AgentEntryBody>[]>;
  readonly blobs: ReadonlyMap<string, string>;
}

export async function everythingInFolder(folder: string): Promise<Everything> {
  const store = await openEmbeddedStore(folder);
  const agents = openStore({ folder: join(folder, "agents"), foldRow: foldAgent, host });
  const everything = await everythingIn(store, agents);
  await agents.close();
  await store.close();
  return everything;
}

export async function everythingInDatabase(url: string, realm = "default"): Promise<Everything> {
  const database = await openDatabase({ url, realm });
  const [store, agents] = [database.store("session", foldRow), database.store("agent", foldAgent)];
  const everything = await everythingIn(store, agents);
  for (const one of [store, agents, database]) await one.close();
  return everything;
}

const EVERYTHING = 1_000_000;

async function everythingIn(store: Store, agents: Store<AgentEntryBody, AgentRow>): Promise<Everything> {
  const rows = await store.sessions.page({ max: EVERYTHING });
  const blobs = new Map<string, string>();
  for (const id of await store.blobs.ids("", EVERYTHING)) {
    const blob = await store.blobs.get(id);
    blobs.set(id, `${blob?.mediaType} ${Buffer.from(blob?.data ?? []).toString("base64")}`);
  }
  return { sessions: await logsOf(store), rows, agents: await logsOf(agents), blobs };
}

async function logsOf<B, R extends LogRow>({ log, sessions }: Store<B, R>) {
  const rows = await sessions.page({ max: EVERYTHING });
  const ids = rows.map((row) => row.session_id).sort();
  const logs = new Map<string, readonly Entry<B>[]>();
  for (const id of ids) logs.set(id, await log.read(id, 1, EVERYTHING));
  return logs;
}

/** The first thing in which two places differ, or nothing: a whole difference of thousands of entries nobody reads. */
export function differenceOf(one: Everything, other: Everything): string | undefined {
  for (const part of ["sessions", "agents", "blobs"] as const) {
    const [ones, others]: ReadonlyMap<string, unknown>[] = [one[part], other[part]];
    if (ones === undefined || others === undefined) return part;
    for (const id of new Set([...ones.keys(), ...others.keys()]))
      if (!isDeepStrictEqual(ones.get(id), others.get(id))) return `${part} ${id}`;
  }
  return isDeepStrictEqual(one.rows, other.rows) ? undefined : "rows";
}
