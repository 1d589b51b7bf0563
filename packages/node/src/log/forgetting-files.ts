import { hash } from "node:crypto";
import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import { SessionId } from "@rkat/core/contract/session";
import { type Forgettings, type Seal, SHARED_OWNERS, type SignedReceipt } from "@rkat/core/ports/store";
import { makeKey, signReceipt } from "@rkat/core/stores/receipts";
import { sealOn } from "@rkat/core/stores/sealing";
import { waitForLock, writeWhole } from "../tables/table-file.ts";
import { unlock } from "./file-locks.ts";
import { syncFolder } from "./segments.ts";
import { replaceFile } from "./whole-file.ts";

const FOLDER = "forgettings";
const JOBS = "jobs";
const JOB = /^[0-9a-f]{64}\.json$/;

interface KeptJob {
  readonly order: number;
  readonly id: string;
  readonly job: string;
}

/**
 * Erasures of a realm in a folder: jobs as files, receipts as lines, and the realm's key. A job holds the erased text,
 * so its bytes are overwritten before its file is deleted; the scan omits open jobs.
 */
export function createForgettingFiles({
  folder: realmFolder,
  seal,
  warn,
}: {
  readonly folder: string;
  readonly seal?: Seal | undefined;
  readonly warn: (sentence: string) => void;
}): Forgettings {
  const folder = join(realmFolder, FOLDER);
  const jobs = join(folder, JOBS);
  const jobFile = (id: string): string => join(jobs, `${hash("sha256", id)}.json`);
  const receiptsFile = join(folder, "receipts.jsonl");
  const isThere = (): boolean => existsSync(jobs);

  /** Exclusive across processes, after the leftovers of an interrupted one are removed. */
  const alone = <T>(work: () => T): T => {
    try {
      mkdirSync(jobs, { recursive: true, mode: 0o700 });
      return locked(join(folder, "lock"), () => {
        for (const name of readdirSync(jobs)) if (!JOB.test(name)) wipe(join(jobs, name));
        return work();
      });
    } catch (cause) {
      if (cause instanceof RuntimeError) throw cause;
      throw new RuntimeError("SESSION_STORE_ERROR", `${folder} cannot be written: ${messageOf(cause)}`, { cause });
    }
  };
  const kept = (): readonly KeptJob[] =>
    readdirSync(jobs)
      .map((name) => readJob(join(jobs, name), seal))
      .sort((one, other) => one.order - other.order);

  return {
    begin: async (id, job) =>
      alone(() => {
        const others = kept();
        const order = others.find((other) => other.id === id)?.order ?? (others.at(-1)?.order ?? 0) + 1;
        const [path, made] = [jobFile(id), `${jobFile(id)}.new`];
        try {
          const text = Buffer.from(JSON.stringify({ order, id, job } satisfies KeptJob));
          const kept = seal?.seal(SHARED_OWNERS.forgotten, text, PLACE) ?? text;
          writeFileSync(made, kept, { mode: 0o600, flush: true });
        } catch (error) {
          if (existsSync(made)) wipe(made);
          throw error;
        }
        const before = existsSync(path) ? openSync(path, "r+") : undefined;
        try {
          renameSync(made, path);
          syncFolder(jobs);
          // Overwritten although its name is gone.
          if (before !== undefined) blank(before);
        } finally {
          if (before !== undefined) closeSync(before);
        }
      }),
    unfinished: async () => (isThere() ? alone(kept).map(({ id, job }) => ({ id, job })) : []),
    end: async (id) => {
      if (!isThere()) return;
      alone(() => {
        const path = jobFile(id);
        if (!existsSync(path)) return;
        // From here on it has ended: the next process removes its leftovers.
        renameSync(path, `${path}.ended`);
        syncFolder(jobs);
        wipe(`${path}.ended`);
      });
    },
    scan: async (texts, onProgress) => {
      if (isThere()) alone(() => {});
      const { scanFolder } = await import("./scan-folder.ts");
      return scanFolder({ folder: realmFolder, texts, except: `${FOLDER}/${JOBS}` }, onProgress);
    },
    keep: async (receipt) =>
      alone(() => {
        const signed = signWith(join(folder, "key.pem"), receipt);
        appendLine(receiptsFile, JSON.stringify(signed));
        syncFolder(folder);
        return signed;
      }),
    receipts: async () => {
      if (!existsSync(receiptsFile)) return [];
      const lines = alone(() => readFileSync(receiptsFile, "utf8")).split("\n");
      const read = lines.filter((line) => line !== "").map((line) => readReceipt(line));
      const torn = read.filter((receipt) => receipt === undefined).length;
      if (torn > 0) warn(`${receiptsFile} has ${torn === 1 ? "a line" : `${torn} lines`} that cannot be read`);
      return read.filter((receipt) => receipt !== undefined);
    },
  };
}

/** The folders of session files, which the projections write. */
const SESSION_FILES = [".rkat", "sessions"];

/**
 * Deletes the derived files of sessions, also those an earlier process wrote or left incomplete: an erased text must
 * not stay in them.
 */
export function deleteSessionFiles(folder: string, sessionIds: readonly string[]): void {
  let at = folder;
  for (const name of SESSION_FILES) {
    at = join(at, name);
    const found = lstatSync(at, { throwIfNoEntry: false });
    if (found?.isSymbolicLink()) {
      throw new RuntimeError("SESSION_STORE_ERROR", `${at} is a link, and nothing is kept behind one; remove it`);
    }
    if (!found?.isDirectory()) return;
  }
  for (const id of sessionIds) {
    if (SessionId.safeParse(id).success) rmSync(join(at, id), { recursive: true, force: true });
  }
}

/** Runs work exclusively across processes: the system releases the lock with its holder. */
function locked<T>(path: string, work: () => T): T {
  const fd = openSync(path, "a", 0o600);
  try {
    waitForLock(fd, path);
    try {
      return work();
    } finally {
      unlock(fd);
    }
  } finally {
    closeSync(fd);
  }
}

const PLACE = Buffer.from("forgetting");

function readJob(path: string, seal: Seal | undefined): KeptJob {
  const bytes = readFileSync(path);
  const by = sealOn(bytes, seal, path);
  const text = Buffer.from(by?.open(SHARED_OWNERS.forgotten, bytes, PLACE) ?? bytes).toString();
  try {
    const { order, id, job } = JSON.parse(text) as Partial<KeptJob>; // Checked below.
    if (typeof order === "number" && typeof id === "string" && typeof job === "string") return { order, id, job };
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
  }
  const message = `${path} is damaged, so its erasure is unknown; request it again, and delete the file`;
  throw new RuntimeError("SESSION_STORE_ERROR", message);
}

function wipe(path: string): void {
  const fd = openSync(path, "r+");
  try {
    blank(fd);
  } finally {
    closeSync(fd);
  }
  unlinkSync(path);
}

const BLANK_BYTES = 1_024 * 1_024;

function blank(fd: number): void {
  const { size } = fstatSync(fd);
  for (let at = 0; at < size; at += BLANK_BYTES) writeWhole(fd, Buffer.alloc(Math.min(BLANK_BYTES, size - at)), at);
  fsyncSync(fd);
}

function signWith(path: string, receipt: string): SignedReceipt {
  if (!existsSync(path)) replaceFile(path, makeKey());
  const key = readFileSync(path, "utf8");
  try {
    return signReceipt(receipt, key);
  } catch (cause) {
    const message = `${path} holds no key to sign with; put the realm's key back, or delete the file for a new one`;
    throw new RuntimeError("SESSION_STORE_ERROR", message, { cause });
  }
}

/** Atomic, and never joined to an incomplete line of an ended process. */
function appendLine(path: string, line: string): void {
  const fd = openSync(path, "a+", 0o600);
  try {
    const { size } = fstatSync(fd);
    const last = Buffer.from("\n");
    if (size > 0) readSync(fd, last, 0, 1, size - 1);
    try {
      writeWhole(fd, Buffer.from(`${last.equals(LINE_END) ? "" : "\n"}${line}\n`), size);
      fsyncSync(fd);
    } catch (error) {
      ftruncateSync(fd, size);
      throw error;
    }
  } finally {
    closeSync(fd);
  }
}

const LINE_END = Buffer.from("\n");

function readReceipt(line: string): SignedReceipt | undefined {
  try {
    const { receipt, signature, public_key } = JSON.parse(line) as Partial<SignedReceipt>; // Checked below.
    if (receipt === undefined || signature === undefined || public_key === undefined) return undefined;
    return { receipt, signature, public_key };
  } catch {
    return undefined;
  }
}
