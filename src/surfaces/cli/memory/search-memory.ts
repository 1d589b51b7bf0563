import { RuntimeError } from "../../../contract/error.ts";
import type { MemoryResults } from "../../../contract/memory.ts";
import { fieldsOf } from "../field-flags.ts";
import { type Io, writeJson } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import { createPaint } from "../paint.ts";
import { whileWaiting } from "../progress/waiting.ts";
import { findSession } from "../sessions/selector.ts";
import { hitLines } from "./hit-lines.ts";
import { whyByWords } from "./memory-status.ts";

/** Those that are looked at one by one; all that are fields of a search are handed on. */
export interface SearchFlags {
  readonly session?: string;
  readonly agent?: string;
  readonly asOf?: number;
  readonly all?: boolean;
  readonly json?: boolean;
}

interface Search extends SearchFlags {
  readonly query: string;
  /** Everything that was said, or only what compactions took out. */
  readonly reach: "discarded" | "everything";
  readonly signal?: AbortSignal;
  /** How to ask for more, where it is not asked for with flags. */
  readonly hints?: Hints;
}

/** What to write to see hits whole, and to search everything. */
interface Hints {
  readonly whole: string;
  readonly everything: string;
}

const FLAGS: Hints = { whole: "--all", everything: "rkat memory history QUERY" };

/** Searches, and prints the hits, the best first. */
export async function searchAndShow(io: Io, opened: Opened, search: Search): Promise<void> {
  const { query, json, all = false, hints = FLAGS } = search;
  // The first search after much was said takes it in before it answers.
  const answer = await whileWaiting(io, "searching", () => recall(opened, { signal: io.interrupt, ...search }));
  if (json) return writeJson(io, answer);
  if (answer.mode === "lexical") await sayByWords(io, opened);
  const paint = createPaint(io.stdout, io.env);
  if (answer.results.length === 0) {
    io.stdout.write(`Nothing found.\n${paint.dim(adviceFor(search, hints))}\n`);
    return;
  }
  const view = {
    paint,
    query,
    columns: io.stdout.columns,
    nowMs: Date.now(),
    wholeHint: all ? undefined : hints.whole,
  };
  const blocks = answer.results.map((hit) => hitLines(hit, view).join("\n"));
  io.stdout.write(`${blocks.join("\n\n")}\n`);
}

async function recall(opened: Opened, search: Search & { readonly signal: AbortSignal }): Promise<MemoryResults> {
  const { query, reach, session, agent, asOf, signal } = search;
  if (asOf !== undefined && session === undefined) {
    throw new RuntimeError("INVALID_PARAMS", "--as-of counts within one session; name it with --session");
  }
  if (agent !== undefined && session !== undefined) {
    throw new RuntimeError("INVALID_PARAMS", "--agent and --session name two places; leave one of them out");
  }
  const where = session === undefined ? {} : { scope: "session", session_id: await findSession(opened, session) };
  const input = { ...fieldsOf("searchMemory", search), query, ...where };
  return opened.runtime.dispatch(reach === "everything" ? "searchHistory" : "searchMemory", input, { signal });
}

/** Who is searching by words alone should know that other words may find more. */
async function sayByWords(io: Io, { runtime }: Opened): Promise<void> {
  const status = await runtime.dispatch("readMemoryStatus", {});
  io.stderr.write(`${createPaint(io.stderr, io.env).dim(`by words alone: ${whyByWords(status)}`)}\n`);
}

function adviceFor({ reach, session, agent }: Search, { everything }: Hints): string {
  if (reach === "discarded") return `Only what compactions took out was searched; ${everything} searches everything.`;
  if (agent !== undefined) return "Try other words, or without --agent all that was said.";
  return session === undefined ? "Try other words." : "Try other words, or without --session all sessions.";
}
