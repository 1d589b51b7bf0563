import { hash } from "node:crypto";
import type { Entry } from "@rkat/core/contract/entry";
import { createInMemoryStore, createRuntime, type Runtime } from "@rkat/core/create-runtime";
import type { Store } from "@rkat/core/ports/store";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { assembleContext, hashContext } from "@rkat/core/state/context";
import { applyEntry, foldSession } from "@rkat/core/state/whole-state";
import { appendEntries } from "@rkat/core/transfer/portable-log";
import { type ImportedFile, importFile, sessionLines } from "@rkat/core/transfer/session-lines";

const { signal } = new AbortController();

/** A realm that is empty, and what keeps it. */
export function emptyRealm(store: Store = createInMemoryStore()): { readonly store: Store; readonly runtime: Runtime } {
  const model = createScriptedModel(() => ({ text: "Noted." }));
  return { store, runtime: createRuntime({ model, store, compaction: true, env: {} }) };
}

/** A session as the text of a file. */
export async function exported({ dispatch }: Runtime, session_id: string): Promise<string> {
  const lines: string[] = [];
  for await (const line of sessionLines({ dispatch, session_id, signal })) lines.push(line);
  return lines.join("");
}

/** Brings a file's bytes in, in pieces of some size. */
export function imported(
  { dispatch }: Runtime,
  file: string | Uint8Array,
  pieceBytes = 64 * 1_024,
): Promise<ImportedFile> {
  const bytes = Buffer.from(file);
  const open = async function* () {
    for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
  };
  return importFile({ dispatch, name: "it.jsonl", signal, clock: createSystemClock(), open, progress: () => {} });
}

/** Puts a log into a store as it was said. */
export async function plant({ log }: Store, id: string, entries: readonly Entry[]): Promise<void> {
  await appendEntries({ log, clock: createSystemClock() }, id, { after: 0, entries });
}

export function entriesOf({ log }: Store, id: string): Promise<readonly Entry[]> {
  return log.read(id, 1, Number.MAX_SAFE_INTEGER);
}

/** The hash of what the model is shown after each entry of a log, and every receipt at its end. */
export function contextsOf(id: string, entries: readonly Entry[]) {
  const state = foldSession(id, entries.slice(0, 1));
  const sha256 = (text: string): string => hash("sha256", text);
  const contexts = entries.slice(1).map((entry) => {
    applyEntry(state, entry);
    return hashContext(assembleContext(state), sha256);
  });
  return { contexts, receipts: state.compactions.map(({ body }) => JSON.stringify(body.receipt)) };
}
