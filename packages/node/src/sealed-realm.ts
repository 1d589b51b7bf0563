import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, readSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import type { Config } from "@rkat/core/config/config-schema";
import { invalid, messageOf, RuntimeError } from "@rkat/core/contract/error";
import type { Seal } from "@rkat/core/ports/store";
import { KEY_BYTES } from "@rkat/core/stores/sealing";
import type { Beginning, KeyFileReport } from "./log/key-file.ts";
import { isPackedHead } from "./log/packed-segment.ts";

/** Where the key of a realm is, as the configuration names it. */
export type Encryption = Config["encryption"];

type Env = Readonly<Record<string, string | undefined>>;

/** Holds the wrapped keys of a realm, in its state folder. */
const KEYS = "keys";
const LOG_FOLDERS = ["", "agents", "schedules"];
const COMMAND_MS_MAX = 60_000;

/** A new key for a realm, as it is written to a file or a variable. */
export function newRealmKey(): string {
  return randomBytes(KEY_BYTES).toString("base64");
}

/**
 * What a state folder is sealed by; undefined where it is plain. A folder that keeps nothing yet is sealed from now on where a
 * key is named. One that keeps something stays as it is, and `warn` receives a sentence where that is not what is configured.
 */
export async function openSeal(
  folder: string,
  encryption: Encryption,
  env: Env,
  warn: (sentence: string) => void = () => {},
): Promise<Seal | undefined> {
  const path = join(folder, KEYS);
  const key = readRealmKey(encryption, env);
  const hasKeys = existsSync(path);
  if (!hasKeys && key === undefined) return undefined;
  const { dropUnusedKeys, openKeyFile } = await import("./log/key-file.ts");
  if (hasKeys && dropUnusedKeys(path, key, () => removeDerived(folder))) {
    const why = "an earlier version had encrypted its index and memory when it was read; they are made again";
    warn(`${folder} is plain: ${why}`);
    return undefined;
  }
  if (key === undefined) {
    const plainCopy = `rkat store copy ${folder} NEW_FOLDER --from-key-file KEY_FILE makes a plain copy`;
    const advice = `name its key in [encryption] as key_file, key_env or key_command, or ${plainCopy}`;
    throw new RuntimeError("SESSION_STORE_ERROR", `what is kept in ${folder} is encrypted; ${advice}`);
  }
  if (!hasKeys && keepsPlain(folder)) {
    const advice = "rkat encryption enable encrypts what is said from now on";
    warn(`${folder} is not encrypted although [encryption] names a key; ${advice}`);
    return undefined;
  }
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return openKeyFile(path, key, () => beginSealing(folder));
}

/** Encrypts what a state folder keeps from now on. False where that was so before. */
export async function enableEncryption(folder: string, encryption: Encryption, env: Env): Promise<boolean> {
  const key = readRealmKey(encryption, env);
  if (key === undefined)
    throw invalid("[encryption] names no key; set key_file, key_env or key_command, then run this again");
  const { dropUnusedKeys, openKeyFile } = await import("./log/key-file.ts");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const wasPlain = dropUnusedKeys(join(folder, KEYS), undefined, () => removeDerived(folder));
  openKeyFile(join(folder, KEYS), key, () => ({ ...beginSealing(folder), enabled: true }));
  return wasPlain;
}

/** What of an environment must never be kept or shown, whatever its name is. */
export function keysIn(env: Env, { key_env }: Encryption): readonly string[] {
  const key = key_env === undefined ? undefined : env[key_env]?.trim();
  return key === undefined || key === "" ? [] : [key];
}

/** A key for a database is refused: the user must not believe that the database is sealed. */
export function refuseSealedDatabase(encryption: Encryption): void {
  if (Object.keys(encryption).length === 0) return;
  const message = "[encryption] seals state folders, and the realm is in a database; remove it, or [store] url";
  throw invalid(`${message}, and let the database encrypt its disk`);
}

/** Has a realm wrapped by another key; what it keeps is not touched. False when it was before. */
export async function rotateRealmKey(
  folder: string,
  { from, to, env }: { readonly from: Encryption; readonly to: Encryption; readonly env: Env },
): Promise<boolean> {
  const [old, next] = [readRealmKey(from, env), readRealmKey(to, env)];
  if (old === undefined || next === undefined)
    throw invalid("[encryption] names no key: it must name the one the realm has now, and the flag the one it gets");
  const { rotateKeyFile } = await import("./log/key-file.ts");
  return rotateKeyFile(join(folder, KEYS), old, next);
}

/** What can be told of a folder's keys without the realm's; undefined where nothing is sealed. */
export async function inspectSeal(folder: string): Promise<KeyFileReport | undefined> {
  const path = join(folder, KEYS);
  if (!existsSync(path)) return undefined;
  return (await import("./log/key-file.ts")).inspectKeyFile(path);
}

/** The key that is named; throws INVALID_PARAMS, without a letter of what was read, for what is none. */
function readRealmKey(encryption: Encryption, env: Env): Uint8Array | undefined {
  const { key_file, key_env, key_command } = encryption;
  if (key_file !== undefined) return parseKey(readKeyFile(key_file), `the file of encryption.key_file, ${key_file},`);
  if (key_env !== undefined) return parseKey(env[key_env] ?? "", `the variable of encryption.key_env, ${key_env},`);
  if (key_command !== undefined) return parseKey(runCommand(key_command, env), "the command of encryption.key_command");
  return undefined;
}

function readKeyFile(path: string): string {
  try {
    return readFileSync(path.startsWith("~/") ? join(homedir(), path.slice(2)) : path, "utf8");
  } catch (cause) {
    throw invalid(`encryption.key_file cannot be read: ${messageOf(cause)}`, cause);
  }
}

function runCommand(command: string, env: Env): string {
  try {
    const limits = { timeout: COMMAND_MS_MAX, maxBuffer: KEY_CHARS_MAX, env: { ...env } };
    return execFileSync("/bin/sh", ["-c", command], {
      ...limits,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
  } catch (cause) {
    const why =
      cause instanceof Error && "status" in cause ? `it ended with ${String(cause.status)}` : messageOf(cause);
    throw invalid(`encryption.key_command did not print a key: ${why}; run it yourself to see why`, cause);
  }
}

const KEY_CHARS_MAX = 64 * 1_024;
const HEX = /^[0-9a-f]{64}$/i;
const BASE64 = /^[A-Za-z0-9+/_-]{43}=?$/;

function parseKey(text: string, where: string): Uint8Array {
  const written = text.trim();
  if (HEX.test(written)) return Buffer.from(written, "hex");
  if (BASE64.test(written)) return Buffer.from(written, "base64");
  const found = written === "" ? "holds nothing" : "does not hold a key";
  throw invalid(`${where} ${found}; write 32 bytes as base64 or hex, as rkat encryption key prints them`);
}

/** Removes what is derived and plain before a folder gets its keys: it is made again, sealed. Logs stay as they are. */
function beginSealing(folder: string): Beginning {
  const plain_before = keepsPlain(folder);
  removeDerived(folder);
  return { plain_before };
}

/** Whether a folder without keys keeps something already; throws SESSION_STORE_ERROR where its keys are missing. */
export function keepsPlain(folder: string): boolean {
  const starts = logsIn(folder).map(payloadStart);
  if (starts.some((first) => first === SEALED)) {
    const message = `${join(folder, KEYS)} is missing, and logs are sealed with the keys in it; restore it from a backup`;
    throw new RuntimeError("SESSION_STORE_ERROR", message);
  }
  return starts.some((first) => first !== undefined);
}

function removeDerived(folder: string): void {
  for (const name of LOG_FOLDERS) {
    const inside = join(folder, name);
    const derived = namesIn(inside).filter((entry) => entry.startsWith("index.db"));
    for (const entry of [...derived, "checkpoints", "memory"]) {
      rmSync(join(inside, entry), { recursive: true, force: true });
    }
  }
}

function logsIn(folder: string): readonly string[] {
  const folders = LOG_FOLDERS.map((name) => join(folder, name, "log"));
  return folders.flatMap((logs) => namesIn(logs).map((name) => join(logs, name)));
}

function namesIn(folder: string): readonly string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}

const RECORD_HEADER_BYTES = 40;
const SEALED = 1;
/** Of a record that is not sealed, as all in packed logs. */
const PLAIN = "[".charCodeAt(0);

/** The first byte of what the first record of a log holds. */
function payloadStart(path: string): number | undefined {
  const fd = openSync(path, "r");
  try {
    const head = Buffer.alloc(RECORD_HEADER_BYTES + 1);
    if (readSync(fd, head, 0, head.length, 0) < head.length) return undefined;
    return isPackedHead(head) ? PLAIN : head[RECORD_HEADER_BYTES];
  } finally {
    closeSync(fd);
  }
}
