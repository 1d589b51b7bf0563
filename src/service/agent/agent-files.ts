import { messageOf } from "../../contract/error.ts";
import type { AgentRow } from "../../core/agent/agent-row.ts";
import type { SessionLocks } from "../../ports/store.ts";
import type { Vault, VaultTexts } from "../../ports/vault.ts";
import { agentId } from "./agent-id.ts";
import type { AgentLog } from "./agent-log.ts";

/** The files of one agent. They follow the log: a disk that refuses them is told of and takes nothing from it. */
export interface AgentFiles {
  /** Once a process: takes in what a person added, and writes what a crash left unwritten. */
  ready(): Promise<void>;
  wroteMemories(row: AgentRow, added: number): Promise<void>;
  wroteNote(note: Parameters<Vault["writeNote"]>[1]): Promise<void>;
  compacted(row: AgentRow): Promise<void>;
  texts(): Promise<VaultTexts>;
}

interface AgentFilesParts {
  readonly vault: Vault | undefined;
  readonly log: AgentLog;
  readonly locks: SessionLocks;
  readonly tell: (what: string) => void;
  /** Adds memories found in files. */
  readonly add: (found: Awaited<ReturnType<Vault["found"]>>) => Promise<unknown>;
}

const NO_TEXTS: VaultTexts = { commands: [], notes: [] };

export function createAgentFiles(name: string, { vault, log, locks, tell, add }: AgentFilesParts): AgentFiles {
  let prepared: Promise<void> | undefined;

  const attempt = async <T>(work: (files: Vault) => Promise<T>, otherwise: T): Promise<T> => {
    if (vault === undefined) return otherwise;
    try {
      return await work(vault);
    } catch (thrown) {
      tell(`The files under .rkat/agents/${name} could not be used (${messageOf(thrown)})`);
      return otherwise;
    }
  };
  const takeIn = async (files: Vault): Promise<void> => {
    // An editor ends a file with a line break, which nobody meant to remember.
    const found = (await files.found(name)).map((one) => ({ ...one, content: one.content.trimEnd() }));
    if (found.length === 0) return;
    const row = await log.row();
    // A process may have died after it had put them into the log.
    const known = new Map((row === undefined ? [] : await log.memories(1, row.count)).map((one) => [keyOf(one), one]));
    const taken = found.flatMap((one) => known.get(keyOf(one)) ?? []);
    if (taken.length > 0) await files.writeMemories(name, taken);
    const fresh = found.filter((one) => !known.has(keyOf(one)));
    if (fresh.length === 0) return;
    await add(fresh);
    tell(`${fresh.length} ${fresh.length === 1 ? "memory" : "memories"} taken in from files`);
  };
  /** One process at a time takes files in; whoever comes second need not wait. */
  const takeInAlone = async (files: Vault): Promise<void> => {
    const lock = agentId(name, "files of agent");
    if (await locks.isHeld(lock)) return;
    const hold = await locks.hold(lock);
    try {
      await takeIn(files);
    } finally {
      await hold.release();
    }
  };
  const compacted = ({ recent, longterm, compacted_at_ms }: AgentRow): Promise<void> =>
    attempt(async (files) => {
      if (recent === undefined || compacted_at_ms === undefined) return;
      await files.writeSummaries(name, { recent, longterm, compacted_at_ms });
    }, undefined);

  return {
    ready: () => {
      prepared ??= attempt(async (files) => {
        await takeInAlone(files);
        const row = await log.row();
        if (row === undefined) return;
        const written = await files.written(name, row.count);
        if (written < row.count) await files.writeMemories(name, await log.memories(written + 1, row.count));
        await compacted(row);
      }, undefined);
      return prepared;
    },
    wroteMemories: (row, added) =>
      attempt(
        async (files) => files.writeMemories(name, await log.memories(row.count - added + 1, row.count)),
        undefined,
      ),
    wroteNote: (note) => attempt((files) => files.writeNote(name, note), undefined),
    compacted,
    texts: () => attempt((files) => files.texts(name), NO_TEXTS),
  };
}

function keyOf({ file, content }: { readonly file?: string | undefined; readonly content: string }): string {
  return JSON.stringify([file, content]);
}
