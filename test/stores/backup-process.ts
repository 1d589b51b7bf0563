// Backs up or restores, telling how far it is, until it is done or killed; or goes through faults of a disk.
import { closeSync, cpSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { join } from "node:path";
import { foldAgent } from "@rkat/core/agent-memory/tiers";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import { foldSchedule } from "@rkat/core/schedules/schedule-row";
import { foldRow } from "@rkat/core/state/session-row";
import { backUpFolder } from "@rkat/node/backup/backup";
import { verifyBackup } from "@rkat/node/backup/backup-reader";
import { restoreFolder } from "@rkat/node/backup/restore";
import { verifyFolder } from "@rkat/node/log/open";

/** What is to be done: `from` is a state folder, `place` a back-up of it, `to` a folder to restore to. */
export interface BackupOrder {
  readonly from: string;
  readonly place: string;
  readonly to: string;
  readonly does: "backup" | "restore" | "faults";
  /** A disk that fails as the file `command` says, and a back-up of an earlier time to begin with. */
  readonly disk?: { readonly command: string; readonly earlier: string; readonly faults: readonly BackupFault[] };
}

export interface BackupFault {
  readonly does: "backup" | "restore";
  readonly first: number;
  readonly many: number;
  readonly errno: number;
}

export interface BackupOutcome {
  readonly fault: BackupFault;
  readonly calls: number;
  readonly failed: number;
  readonly wrong: readonly string[];
}

const signal = new AbortController().signal;
const say = (line: string): boolean => process.stdout.write(`${line}\n`);

async function backUp({ from, place }: BackupOrder): Promise<void> {
  await backUpFolder(from, place, { now: Date.now, signal, progress: (done, total) => say(`${done} of ${total}`) });
}

async function restore({ place, to }: BackupOrder): Promise<void> {
  await restoreFolder(place, to, {
    signal,
    progress: (done, total) => say(`${done} of ${total}`),
    admit: async () => {},
    verify: (folder) => verifyFolder(folder, foldRow),
  });
}

async function problemsOf(place: string): Promise<readonly string[]> {
  const folds = { session: foldRow, agent: foldAgent, schedule: foldSchedule };
  return (await verifyBackup(place, { folds, signal, progress: () => {} })).problems;
}

/** Every failure is a sentence of ours, and what was there before is there afterwards. */
async function suffer(order: BackupOrder, fault: BackupFault, disk: NonNullable<BackupOrder["disk"]>) {
  const wrong: string[] = [];
  const command = openSync(disk.command, "r+");
  const set = (...numbers: readonly number[]): unknown => writeSync(command, Int32Array.from(numbers), 0, null, 0);
  rmSync(order.place, { recursive: true, force: true });
  rmSync(order.to, { recursive: true, force: true });
  rmSync(`${order.to}.restoring`, { recursive: true, force: true });
  cpSync(disk.earlier, order.place, { recursive: true });
  const work = fault.does === "backup" ? backUp : restore;
  set(0, fault.first, fault.many, fault.errno, 0);
  const thrown = await work(order).then(
    () => undefined,
    (error: unknown) => error,
  );
  const numbers = new Int32Array(5);
  readSync(command, numbers, 0, numbers.byteLength, 0);
  set(0, 0, 0, 0, 0);
  closeSync(command);
  if (thrown !== undefined && !(thrown instanceof RuntimeError)) wrong.push(`no sentence: ${messageOf(thrown)}`);
  wrong.push(...(await problemsOf(order.place)));
  const isRestored = fault.does === "restore" && thrown === undefined;
  if (!isRestored) await work(order).catch((error: unknown) => wrong.push(`not again: ${messageOf(error)}`));
  wrong.push(...(await problemsOf(order.place)));
  if (fault.does === "restore") wrong.push(...(await verifyFolder(order.to, foldRow)).problems);
  return { fault, calls: numbers[0] ?? 0, failed: numbers[4] ?? 0, wrong } satisfies BackupOutcome;
}

flushCompileCache();
const order = JSON.parse(process.argv[2] ?? "{}") as BackupOrder; // What the test wrote.
if (order.does === "backup") await backUp(order);
if (order.does === "restore") await restore(order);
if (order.disk !== undefined) {
  const write = process.stdout.write.bind(process.stdout);
  // How far it is nobody wants to know here.
  process.stdout.write = () => true;
  for (const fault of order.disk.faults) {
    const outcome = await suffer({ ...order, to: join(order.to, "..", "restored") }, fault, order.disk);
    write(`${JSON.stringify(outcome)}\n`);
  }
}
