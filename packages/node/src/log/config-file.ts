import { hash } from "node:crypto";
import { readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import type { ConfigStore, KeptLayer, LayerBefore } from "@rkat/core/ports/store";
import { openPrivateDb } from "../tables/private-db.ts";
import { syncFolder } from "./segments.ts";

type Layer = KeptLayer["layer"];

export interface ConfigFileOptions {
  readonly folder: string;
  /** Throws INVALID_PARAMS with the path if the text is no layer. */
  readonly parse: (text: string, path: string) => Layer;
  readonly format: (layer: Layer) => string;
}

/**
 * A realm's configuration layer as `config.toml` in its folder, with the number of changes in `config_state.json`. The
 * number belongs to the text whose hash is beside it: another text, written by hand or by a process that ended between
 * the two files, counts as one more change.
 */
export function createConfigFile({ folder, parse, format }: ConfigFileOptions): ConfigStore {
  const path = join(folder, "config.toml");
  const statePath = join(folder, "config_state.json");
  let seen = stampOf(path);

  const load = (): LayerBefore => {
    // Before the text, so that a write in between counts as one more change.
    const { generation, sha256 } = readState(statePath);
    const text = readText(path);
    return {
      generation: generation + (digest(text) === sha256 ? 0 : 1),
      layer: () => (text === undefined ? {} : parse(text, path)),
    };
  };
  const write = (layer: Layer, generation: number): void => {
    const text = format(layer);
    try {
      const renames = [
        prepare(path, text),
        prepare(statePath, `${JSON.stringify({ generation, sha256: digest(text) })}\n`),
      ];
      for (const rename of renames) rename();
      syncFolder(folder);
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new RuntimeError("SESSION_STORE_ERROR", `${path} cannot be written: ${why}`, { cause });
    }
    seen = stampOf(path);
  };
  return {
    name: path,
    read: () => {
      // Before reading, even if that fails: only later writes are changes.
      seen = stampOf(path);
      const { generation, layer } = load();
      return { generation, layer: layer() };
    },
    hasChanged: () => stampOf(path) !== seen,
    change: (make) =>
      alone(join(folder, "config-lock.db"), () => {
        const before = load();
        const layer = make(before);
        const generation = before.generation + 1;
        write(layer, generation);
        return { generation, layer };
      }),
  };
}

/** Runs work exclusively across processes: the system releases the lock with its holder. */
async function alone<T>(path: string, work: () => T): Promise<T> {
  const lock = openPrivateDb<never, string>(path, { noSync: true }, () => {});
  try {
    // Errors are thrown after the lock is released.
    const outcome = lock.transactionSync(() => {
      try {
        return { value: work() };
      } catch (error) {
        return { error };
      }
    });
    if ("error" in outcome) throw outcome.error;
    return outcome.value;
  } finally {
    await lock.close();
  }
}

/** Writes a text beside its file; the returned function renames it into place atomically. */
function prepare(path: string, text: string): () => void {
  writeFileSync(`${path}.new`, text, { mode: 0o600, flush: true });
  return () => renameSync(`${path}.new`, path);
}

/** A stamp that changes with the text of a file. */
function stampOf(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? "" : `${stat.ino} ${stat.mtimeMs} ${stat.size}`;
}

function digest(text: string | undefined): string {
  return text === undefined ? "" : hash("sha256", text);
}

function readState(path: string): { readonly generation: number; readonly sha256: string } {
  const none = { generation: 0, sha256: "" };
  const text = readText(path);
  if (text === undefined) return none;
  try {
    const { generation, sha256 } = JSON.parse(text) as Partial<typeof none>; // Checked below.
    return Number.isSafeInteger(generation) ? { generation: generation ?? 0, sha256: sha256 ?? "" } : none;
  } catch {
    return none;
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && ["ENOENT", "ENOTDIR"].includes(String(cause.code)))
      return undefined;
    throw invalid(`${path} is there and cannot be read; check its permissions`, cause);
  }
}
