import type { Compaction } from "../../../contract/compaction.ts";
import { RuntimeError } from "../../../contract/error.ts";
import type { Opened } from "../open-runtime.ts";
import { shortId } from "../sessions/selector.ts";

/** How a compaction can be named, for help and for refusals. */
export const COMPACTION_HINT = "its id, a beginning of it, last, or ~1 for the one before the last";

/** A session and the word that names one of its compactions; without one, the command's own choice. */
export interface Named {
  readonly id: string;
  readonly word: string | undefined;
}

/** The compaction a word stands for, whether it stands or was undone; without a word, the newest. */
export async function findCompaction(opened: Opened, { id, word = "last" }: Named): Promise<Compaction> {
  const compactions = await compactionsOf(opened, id);
  if (compactions.length === 0) throw notCompacted(id);
  const [, digits] = /^~(\d{0,9})$/.exec(word) ?? [];
  const back = word === "last" ? 0 : digits === undefined ? undefined : Number(digits);
  if (back === undefined) return compactionBeginning(compactions, word.toLowerCase());
  const found = compactions.at(-1 - back);
  if (found !== undefined) return found;
  throw missing(`${word} is further back than the oldest compaction; ${listHint(id)}`);
}

/** The compaction that a change is about; without a word, the newest that was not undone. */
export async function findStanding(opened: Opened, { id, word }: Named): Promise<Compaction> {
  if (word !== undefined) return findCompaction(opened, { id, word });
  const compactions = await compactionsOf(opened, id);
  const standing = compactions.findLast(({ undone }) => !undone);
  if (standing !== undefined) return standing;
  if (compactions.length === 0) throw notCompacted(id);
  throw missing(`every compaction of session ${shortId(id)} was undone already; ${listHint(id)}`);
}

/** Every compaction of a session, oldest first. */
async function compactionsOf({ runtime }: Opened, session_id: string): Promise<readonly Compaction[]> {
  return (await runtime.dispatch("listCompactions", { session_id })).compactions;
}

function compactionBeginning(compactions: readonly Compaction[], prefix: string): Compaction {
  const found = compactions.filter(({ compaction_id }) => compaction_id.startsWith(prefix));
  const [only, ...others] = found;
  if (only === undefined || prefix === "")
    throw missing(`no compaction of the session begins with ${prefix || "nothing"}; write ${COMPACTION_HINT}`);
  if (others.length === 0) return only;
  const shown = found.map(({ compaction_id }) => compaction_id).join(", ");
  const message = `${prefix} begins ${found.length} compactions: ${shown}; write more of the one you mean`;
  throw new RuntimeError("INVALID_PARAMS", message);
}

function notCompacted(id: string): RuntimeError {
  return missing(`session ${shortId(id)} was not compacted yet; rkat compact run ${shortId(id)} does it`);
}

function listHint(id: string): string {
  return `rkat compact list ${shortId(id)} shows them`;
}

function missing(message: string): RuntimeError {
  return new RuntimeError("SESSION_NOT_FOUND", message);
}
