import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { idOf } from "../support/entries.ts";
import type { PostgresServer } from "../support/postgres-server.ts";
import { openPostgresStore } from "../support/postgres-store.ts";
import { isExpected } from "./cycles.ts";
import { bodiesOf } from "./expected.ts";

/** What a process of the crowd is told to do. */
export interface CrowdOrder {
  readonly url: string;
  readonly realm: string;
  readonly leaseMs: number;
  readonly writes: readonly string[];
  /** Sessions to hear, each from after a seq. */
  readonly subscribed: Readonly<Record<string, number>>;
}

export interface CrowdOptions {
  readonly processes: number;
  /** A process has so many sessions of its own, and all of them fight for some more. */
  readonly sessions: number;
  readonly contested: number;
  readonly kills: number;
  readonly stops: number;
  readonly leaseMs: number;
  readonly random: () => number;
  /** A folder for compiled code: most of a short life would otherwise be the start of its process. */
  readonly compiled: string;
}

export interface CrowdCounts {
  readonly kills: number;
  readonly stops: number;
  readonly acknowledged: number;
  /** Entries in the logs at the end. */
  readonly entries: number;
  /** Acknowledged events that were not there afterwards. */
  readonly lost: number;
  /** Sessions whose entries were not those that were appended, in order, once. */
  readonly broken: number;
  /** Subscribers that had not heard all of their session when all was quiet. */
  readonly behind: number;
  /** Gaps and repeats at a subscriber, and errors that no caller of a store expects. */
  readonly wrong: readonly string[];
}

/** A process lives for so many appends at most. */
const ACKS_MAX = 120;
const QUIET_MS_MAX = 30_000;

/**
 * Several processes write to sessions of one database and hear those of all; they are killed and started again, and the
 * database is stopped as by a crash. Counts what is wrong afterwards.
 */
export async function runCrowd(server: PostgresServer, options: CrowdOptions): Promise<CrowdCounts> {
  const { processes, sessions, contested, leaseMs, random, compiled } = options;
  const url = await server.createDatabase(`crowd_${Math.floor(random() * 1_000_000)}`);
  const realm = "crowd";
  const own = (member: number) => Array.from({ length: sessions }, (_, at) => idOf(1 + member * sessions + at));
  const shared = Array.from({ length: contested }, (_, at) => idOf(1 + processes * sessions + at));
  const all = [...Array.from({ length: processes }, (_, member) => own(member)).flat(), ...shared];
  await createSessions({ url, realm }, all);

  const acks = new Map<string, number>();
  const wrong: string[] = [];
  let acknowledged = 0;
  let kills = 0;
  let stops = 0;
  /** What the subscribers of each member have heard: whoever takes its place goes on from there. */
  const received = Array.from({ length: processes }, () => new Map(all.map((id) => [id, 1])));

  const start = (member: number) => {
    const order: CrowdOrder = {
      url,
      realm,
      leaseMs,
      writes: [...own(member), ...shared],
      subscribed: Object.fromEntries(received[member] ?? []),
    };
    return startMember({ order, compiled }, ([word, id = "", seq], line) => {
      if (word === "wrong") wrong.push(line);
      if (word === "heard") received[member]?.set(id, Number(seq));
      if (word !== "ack") return;
      acknowledged += 1;
      acks.set(id, Math.max(Number(seq), acks.get(id) ?? 0));
    });
  };

  /** One member's place: its process is killed at a random moment, and another begins, until there were enough. */
  const holdPlace = async (member: number): Promise<Member> => {
    for (;;) {
      const process = start(member);
      if (kills >= options.kills) return process;
      kills += 1;
      await process.acked(Math.floor(random() * ACKS_MAX));
      if ((stops + 1) * options.kills <= kills * options.stops) {
        stops += 1;
        await server.stopNow();
        await server.restart();
      }
      await process.kill();
    }
  };
  const members = await Promise.all(Array.from({ length: processes }, (_, member) => holdPlace(member)));

  // All live now; each writes a little more, so that what came last is held to the rules as well.
  await Promise.all(members.map((member) => member.acked(1)));
  await Promise.all(members.map((member) => member.send("stop", "stopped")));
  const found = await checkLogs({ url, realm }, acks, all);
  const ends = JSON.stringify(found.ends);
  await Promise.race([
    Promise.all(members.map((member) => member.send(ends, "caught up"))),
    new Promise((resolve) => setTimeout(resolve, QUIET_MS_MAX).unref()),
  ]);
  await Promise.all(members.map((member) => member.kill()));
  const behind = received.flatMap((positions) => all.filter((id) => (positions.get(id) ?? 0) < (found.ends[id] ?? 0)));
  const { lost, broken, entries } = found;
  return { kills, stops, acknowledged, entries, lost, broken, behind: behind.length, wrong };
}

interface Place {
  readonly url: string;
  readonly realm: string;
}

async function createSessions(place: Place, ids: readonly string[]): Promise<void> {
  const store = await openPostgresStore(place);
  await Promise.all(ids.map((id) => store.log.append(id, 0, toNewEntries(bodiesOf(id, 0)))));
  await store.close();
}

async function checkLogs(place: Place, acks: ReadonlyMap<string, number>, ids: readonly string[]) {
  const store = await openPostgresStore(place);
  const ends: Record<string, number> = {};
  let [lost, broken, entries] = [0, 0, 0];
  for (const id of ids) {
    const read = await store.log.read(id, 1, Number.MAX_SAFE_INTEGER);
    const last = read.at(-1);
    const end = last === undefined ? 0 : last.seq + last.span - 1;
    ends[id] = end;
    entries += read.length;
    lost += Math.max(0, (acks.get(id) ?? 0) - end);
    const bodies = read.map(({ body }) => body);
    const isSound = isExpected(id, bodies, { from: 0, end }) && (await store.sessions.get(id))?.last_seq === end;
    broken += isSound ? 0 : 1;
  }
  await store.close();
  return { ends, lost, broken, entries };
}

interface Member {
  /** Resolves when it has told of so many appends, or has ended. */
  acked(count: number): Promise<void>;
  /** Tells it a line and waits for its answer. */
  send(line: string, answer: string): Promise<void>;
  kill(): Promise<void>;
}

function startMember(
  { order, compiled }: { readonly order: CrowdOrder; readonly compiled: string },
  onLine: (words: readonly string[], line: string) => void,
): Member {
  const script = join(import.meta.dirname, "crowd-process.ts");
  const env = { ...process.env, NODE_COMPILE_CACHE: compiled };
  const child: ChildProcess = spawn(process.execPath, [script], { stdio: ["pipe", "pipe", "inherit"], env });
  if (child.stdin === null || child.stdout === null) throw new Error("the process has no input or no output");
  const { stdin, stdout } = child;
  stdin.on("error", () => {}); // Of one that is killed while it is spoken to.
  stdin.write(`${JSON.stringify(order)}\n`);
  let acks = 0;
  let isEnded = false;
  const said = new Set<string>();
  const waiting = new Set<() => void>();
  const until = (isTrue: () => boolean): Promise<void> =>
    new Promise((resolve) => {
      const look = (): void => {
        if (!isEnded && !isTrue()) return;
        waiting.delete(look);
        resolve();
      };
      waiting.add(look);
      look();
    });
  const lines = createInterface({ input: stdout });
  lines.on("line", (line) => {
    const words = line.split(" ");
    if (words[0] === "ack") acks += 1;
    said.add(line);
    onLine(words, line);
    for (const look of waiting) look();
  });
  const ended = once(child, "close").then(() => {
    isEnded = true;
    for (const look of waiting) look();
  });
  return {
    acked: (count) => until(() => said.has("ready") && acks >= count),
    send: (line, answer) => {
      stdin.write(`${line}\n`);
      return until(() => said.has(answer));
    },
    kill: async () => {
      child.kill("SIGKILL");
      await ended;
    },
  };
}
