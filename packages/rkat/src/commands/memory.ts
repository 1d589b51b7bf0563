import { setTimeout } from "node:timers/promises";
import { invalid } from "@rkat/core/contract/error";
import type { MemoryHit, MemoryResults, MemoryStatusReport } from "@rkat/core/contract/memory";
import { OPERATIONS } from "@rkat/core/contract/operations";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { Option } from "commander";
import {
  type Call,
  type CommandRow,
  command,
  type OpenedCall,
  onOpened,
  operation,
  show,
  type View,
} from "../command-row.ts";
import { fieldOptions, fieldsOf, jsonFlag, wholeFrom } from "../flags.ts";
import {
  ageSince,
  alignColumns,
  bytesText,
  createPaint,
  grouped,
  type Io,
  oneLine,
  type Paint,
  writeJson,
} from "../io.ts";
import { isThere, type Opened, withMemory } from "../open-runtime.ts";
import { invocationIn } from "../parts.ts";
import { createIndexCount, whileWaiting } from "../progress.ts";
import { findSession, SELECTOR_NOTE, shortId } from "../session-selector.ts";
import { memoryExportRow, memoryImportRow } from "../transfer/memory-transfer.ts";
import { knownProjects } from "../transfer/watch.ts";
import { forgetRows } from "./forget.ts";

const NOTES = [
  ["A hit shows", "its score from 0 to 1, when, in which session, at which turn and seq, and the speaker"],
  SELECTOR_NOTE,
  ["Exit codes", "0 also when nothing is found · 2 wrong input · 10 no such session · 40 without memory-store"],
] as const;

export const memoryRows: readonly CommandRow[] = [
  command("memory", {
    text: "Search, erase, import and export memory of all sessions: searches use words and meaning, and call no model.",
    notes: [SELECTOR_NOTE],
  }),
  searchRow("search", "discarded", [
    ["rkat memory search which port does staging use", "quotes are not needed"],
    ["rkat memory search heron --session last --limit 1", "the best hit of one session"],
    ["rkat memory search heron --session last --as-of 40", "as it was when seq 40 was said"],
    ["rkat memory search heron --tokens 600", "with what was said around each hit"],
  ]),
  searchRow("history", "everything", [
    ["rkat memory history heron", "also what is still in a context"],
    ["rkat memory history heron --agent ada", "everything an agent remembers"],
    ["rkat memory history heron --all-projects", "also in the other projects that rkat watch has imported into"],
    ["rkat memory history heron --explain", "why each was found"],
    ["rkat memory history heron --json | jq '.results[].session_id'", "for scripts"],
  ]),
  ...forgetRows,
  operation("memory status", "readMemoryStatus", {
    examples: [["rkat memory status", "how much, how fresh, and whether it searches by meaning"]],
    view: statusLines,
  }),
  command("memory index", {
    text: "Make the vectors that are still pending, so that searches go by meaning; interrupted, it keeps those it made.",
    flags: () => [jsonFlag()],
    examples: [["rkat memory index", "before many searches, or at night"]],
    run: onOpened(makeVectors, withMemory),
  }),
  memoryImportRow,
  memoryExportRow,
];

const ALL_PROJECTS = new Option(
  "--all-projects",
  "search this project and each that rkat watch has imported into; on this machine only",
);

function searchRow(name: string, reach: Search["reach"], examples: NonNullable<CommandRow["examples"]>): CommandRow {
  const here = onOpened<SearchFlags>(
    ({ io, opened, flags, arg }) => searchAndShow(io, opened, { ...flags, query: arg("query") ?? "", reach }),
    withMemory,
  );
  return command(`memory ${name} QUERY…`, {
    text: OPERATIONS[reach === "everything" ? "searchHistory" : "searchMemory"].summary,
    flags: () => [
      ...fieldOptions("searchMemory", { limit: (limit) => limit.argParser(wholeFrom(1)) }),
      new Option("--all", "show every hit whole, not some lines of it"),
      ...(reach === "everything" ? [ALL_PROJECTS] : []),
      jsonFlag(),
    ],
    examples,
    notes: NOTES,
    run: (call: Call<SearchFlags>) => (call.flags.allProjects ? searchProjects(call) : here(call)),
  });
}

/** Searches the realm of each known project. Nothing of one is kept in another. */
async function searchProjects(call: Call<SearchFlags>): Promise<void> {
  const { invocation, io, flags, arg, paint } = call;
  const { session, agent, limit } = flags;
  if (session !== undefined || agent !== undefined) {
    throw invalid("--all-projects: --session and --agent name a place in one project; leave them out");
  }
  const search = { ...flags, query: arg("query") ?? "", reach: "everything" as const };
  const own = invocation.place().projectRoot;
  const found: (MemoryResults["results"][number] & { readonly project: string })[] = [];
  const projects = [...new Set([own, ...(await knownProjects(invocation.place()))])];
  for (const project of projects) {
    const there = project === own ? invocation : invocationIn(invocation, project);
    if (project !== own && !(await isThere(there.place().stateFolder))) continue;
    await withMemory(there, async (opened) => {
      const { results } = await recall(io, opened, search);
      found.push(...results.map((hit) => ({ project, ...hit })));
    });
  }
  const results = found.sort((a, b) => b.score - a.score).slice(0, limit ?? HITS);
  if (flags.json) return writeJson(io, { results, projects });
  const hint = flags.all ? undefined : FLAGS.whole;
  const view = { paint, query: search.query, columns: io.stdout.columns, wholeHint: hint, showsAround: false };
  const blocks = results.map((hit) => [paint.dim(oneLine(hit.project, PROJECT_CHARS_MAX)), ...hitLines(hit, view)]);
  io.stdout.write(results.length === 0 ? "Nothing found.\n" : `${blocks.map((one) => one.join("\n")).join("\n\n")}\n`);
}

/** As many as a search of one project gives. */
const HITS = 5;
const PROJECT_CHARS_MAX = 200;

/** Shows what memory holds, what is pending, and how it searches. */
export function statusLines(status: MemoryStatusReport, { paint }: Pick<View, "paint">): readonly string[] {
  return alignColumns(statusRows(status)).map((line) => (line.startsWith(PROBLEM) ? paint.yellow(line) : line));
}

const LOOK_MS = 250;
/** An embedder takes at most a second per text; after this long without progress there will be none. */
const LOOKS_IN_VAIN_MAX = 480;

/** Waits until nothing is pending, or nothing becomes less; then prints what memory holds. */
async function makeVectors(call: OpenedCall): Promise<void> {
  const { io, opened } = call;
  // Reading the status also starts the embedding.
  const read = () => opened.runtime.dispatch("readMemoryStatus", {});
  await whileWaiting(io, "making vectors", async () => {
    let least = Number.POSITIVE_INFINITY;
    for (let inVain = 0; inVain < LOOKS_IN_VAIN_MAX && !io.interrupt.aborted; inVain += 1) {
      const { pending, problem } = await read();
      if (pending === 0 || problem !== undefined) return;
      if (pending < least) inVain = 0;
      least = Math.min(least, pending);
      await setTimeout(LOOK_MS);
    }
  });
  const status = await read();
  show(call, status, () => statusLines(status, call));
}

const PROBLEM = "problem";
const SENTENCE_CHARS_MAX = 1_000;

function statusRows(status: MemoryStatusReport): readonly (readonly string[])[] {
  const { entries, pending, sessions_behind, embedder, index, bytes, mode, problem } = status;
  const behind = sessions_behind === 0 ? "none" : `${grouped(sessions_behind)}; the next search indexes them`;
  return [
    ["entries", grouped(entries)],
    ["pending vectors", grouped(pending)],
    ["sessions behind", behind],
    ["embedder", oneLine(embedder, SENTENCE_CHARS_MAX)],
    ["index", oneLine(index, SENTENCE_CHARS_MAX)],
    ["size", bytesText(bytes)],
    ["mode", mode === "hybrid" ? "hybrid: by words and meaning" : `lexical, by words alone: ${whyByWords(status)}`],
    ...(problem === undefined ? [] : [[PROBLEM, oneLine(problem, SENTENCE_CHARS_MAX)]]),
  ];
}

function whyByWords({ problem, embedder, entries, pending, by_words }: MemoryStatusReport): string {
  if (problem !== undefined) return oneLine(problem, SENTENCE_CHARS_MAX);
  if (embedder === "none") return "there is no embedder";
  if (embedder === "loading") return "the embedder is still loading";
  if (entries === 0) return "there is nothing to search yet";
  if (entries === by_words) return "all of it is found by its words";
  return pending === 0
    ? "its vectors were made just now"
    : `${grouped(pending)} of ${grouped(entries)} entries have no vector yet`;
}

/** The flags that code reads; `fieldsOf` reads those that are fields of a search. */
interface SearchFlags {
  readonly session?: string;
  readonly agent?: string;
  readonly asOf?: number;
  readonly tokens?: number;
  readonly limit?: number;
  readonly all?: boolean;
  readonly allProjects?: boolean;
  readonly json?: boolean;
}

interface Search extends SearchFlags {
  readonly query: string;
  /** Everything, or only what compactions removed. */
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

export async function searchAndShow(io: Io, opened: Opened, search: Search): Promise<void> {
  const { query, json, all = false, tokens, hints = FLAGS } = search;
  const answer = await recall(io, opened, search);
  if (json) return writeJson(io, answer);
  // Reading the status would wait for the index.
  if (answer.vectors_pending === true) io.stderr.write(`${createPaint(io.stderr, io.env).dim(PENDING[answer.mode])}\n`);
  else if (answer.mode === "lexical") await sayByWords(io, opened);
  const paint = createPaint(io.stdout, io.env);
  if (answer.results.length === 0) {
    io.stdout.write(`Nothing found.\n${paint.dim(adviceFor(search, hints))}\n`);
    return;
  }
  const { columns } = io.stdout;
  const view = { paint, query, columns, wholeHint: all ? undefined : hints.whole, showsAround: tokens !== undefined };
  const blocks = answer.results.map((hit) => hitLines(hit, view).join("\n"));
  io.stdout.write(`${blocks.join("\n\n")}\n`);
}

const PENDING: Readonly<Record<MemoryResults["mode"], string>> = {
  hybrid: "some of it was searched by words alone: its vectors are still to be made, by `rkat memory index` at once",
  lexical: "by words alone: the embedder or its vectors are not ready yet; `rkat memory index` makes them at once",
};

async function recall(io: Io, opened: Opened, search: Search): Promise<MemoryResults> {
  const { query, reach, session, agent, asOf, json, signal = io.interrupt } = search;
  if (asOf !== undefined && session === undefined) {
    throw invalid("--as-of counts within one session; name it with --session");
  }
  if (agent !== undefined && session !== undefined) {
    throw invalid("--agent and --session name two places; leave one of them out");
  }
  const where = session === undefined ? {} : { scope: "session", session_id: await findSession(opened, session) };
  const input = { ...fieldsOf("searchMemory", search), query, ...where };
  const { words, indexed } = createIndexCount(opened.runtime, "searching");
  const ask = () =>
    opened.runtime.dispatch(reach === "everything" ? "searchHistory" : "searchMemory", input, { signal, indexed });
  return json ? ask() : whileWaiting(io, words, ask);
}

/** Notes that the search used words alone, so that other words may find more. */
async function sayByWords(io: Io, { runtime }: Opened): Promise<void> {
  const status = await runtime.dispatch("readMemoryStatus", {});
  io.stderr.write(`${createPaint(io.stderr, io.env).dim(`by words alone: ${whyByWords(status)}`)}\n`);
}

function adviceFor({ reach, session, agent }: Search, { everything }: Hints): string {
  if (reach === "discarded") return `Only what compactions removed was searched; ${everything} searches everything.`;
  if (agent !== undefined) return "Try other words, or search everything without --agent.";
  return session === undefined ? "Try other words." : "Try other words, or without --session all sessions.";
}

interface HitView {
  readonly paint: Paint;
  /** What was looked for; its words stand out in the text. */
  readonly query: string;
  readonly columns: number | undefined;
  /** What to write to see a hit whole; undefined where it is shown whole. */
  readonly wholeHint: string | undefined;
  /** Whether the messages around a hit follow it. */
  readonly showsAround: boolean;
}

/** A hit: score, time, place and speaker, then its text. */
function hitLines(hit: MemoryHit, view: HitView): readonly string[] {
  const { bold, dim } = view.paint;
  const { score, session_id, turn, seq, created_at, agent } = hit;
  const age = ageSince(created_at);
  const place = agent === undefined ? `${shortId(session_id)} turn ${turn} seq ${seq}` : `${agent} memory ${turn}`;
  const head = `${bold(score.toFixed(2))}  ${dim(`${age}  ${oneLine(place, PLACE_CHARS_MAX)}`)}  ${speakerOf(hit)}`;
  const text = textLines(hit.content, view).map((line) => `${INDENT}${line}`.trimEnd());
  return [head, ...whyLines(hit, dim), ...text, ...aroundLines(hit, view)];
}

function aroundLines({ around = [] }: MemoryHit, { paint, columns = COLUMNS_DEFAULT, showsAround }: HitView) {
  if (!showsAround) return [];
  return around.map((said) => {
    const elsewhere = said.agent ?? (said.session_id === undefined ? "" : shortId(said.session_id));
    const place = oneLine(`${elsewhere} seq ${said.seq}`.trim(), PLACE_CHARS_MAX);
    const head = `${INDENT}${place}  ${speakerOf(said)}  `;
    return paint.dim(`${head}${oneLine(said.content, Math.max(COLUMNS_MIN, columns - head.length))}`);
  });
}

function whyLines({ why, in_context }: MemoryHit, dim: Paint["dim"]): readonly string[] {
  if (why === undefined) return [];
  const { words, meaning, neighbours } = why;
  const parts = Object.entries({ words, meaning, neighbours }).map(([name, share]) => `${name} ${share.toFixed(2)}`);
  return [`${INDENT}${dim(`${parts.join(", ")}; ${in_context === true ? "in" : "not in"} the context now`)}`];
}

const PLACE_CHARS_MAX = 80;
const INDENT = "      ";
const SPEAKERS: Readonly<Record<string, string>> = { user: "you", assistant: "model", tool: "tool", notice: "notice" };

const KINDS: Readonly<Record<string, string>> = {
  summary: "summary",
  agent_memory: "remembered",
  agent_summary: "summary",
  agent_note: "note",
};

function speakerOf({ role, kind }: Pick<MemoryHit, "role" | "kind">): string {
  const known = KINDS[kind];
  if (known !== undefined) return known;
  const speaker = SPEAKERS[role] ?? oneLine(role, PLACE_CHARS_MAX);
  return kind === "tool_call" ? `${speaker}, calling a tool` : speaker;
}

const COLUMNS_DEFAULT = 100;
const COLUMNS_MIN = 20;
const LINES_MAX = 6;
/** So many lines before the one that matches best, for what leads up to it. */
const LINES_BEFORE = 2;

function textLines(
  content: string,
  { paint, query, columns = COLUMNS_DEFAULT, wholeHint }: HitView,
): readonly string[] {
  const wanted = new Set(wordsOf(query).map(({ folded }) => folded));
  const mark = (line: string): string => markWords(line, wanted, paint);
  const said = withoutControls(content).trim().split("\n");
  if (wholeHint === undefined) return said.map(mark);
  const width = Math.max(COLUMNS_MIN, columns - INDENT.length);
  const lines = said.flatMap((line) => wrap(line, width));
  const start = Math.max(0, Math.min(bestLine(lines, wanted) - LINES_BEFORE, lines.length - LINES_MAX));
  const end = start + LINES_MAX;
  const more = lines.length > LINES_MAX ? [paint.dim(`(${lines.length - LINES_MAX} more lines: ${wholeHint})`)] : [];
  return [
    ...(start === 0 ? [] : [paint.dim("…")]),
    ...lines.slice(start, end).map(mark),
    ...(end >= lines.length ? [] : [paint.dim("…")]),
    ...more,
  ];
}

function wrap(line: string, width: number): readonly string[] {
  // A line breaks at a space where it has one, and in the middle of a word that fills it.
  return line.match(new RegExp(`.{1,${width}}(?:\\s+|$)|.{1,${width}}`, "gu"))?.map((part) => part.trimEnd()) ?? [""];
}

/** The first of the lines that hold the most of the words. */
function bestLine(lines: readonly string[], wanted: ReadonlySet<string>): number {
  const counts = lines.map(
    (line) => new Set(wordsOf(line).flatMap(({ folded }) => (wanted.has(folded) ? [folded] : []))).size,
  );
  return counts.indexOf(Math.max(...counts));
}

function markWords(line: string, wanted: ReadonlySet<string>, { bold }: Paint): string {
  let marked = "";
  let done = 0;
  for (const { folded, from, to } of wordsOf(line)) {
    if (!wanted.has(folded)) continue;
    marked += line.slice(done, from) + bold(line.slice(from, to));
    done = to;
  }
  return marked + line.slice(done);
}

interface Word {
  /** Without case and accents, as it is compared. */
  readonly folded: string;
  readonly from: number;
  readonly to: number;
}

const SEGMENTER = new Intl.Segmenter("en", { granularity: "word" });

/** The words of a text in any script, also of those that write no spaces. */
function wordsOf(text: string): readonly Word[] {
  return [...SEGMENTER.segment(text)]
    .filter(({ isWordLike }) => isWordLike)
    .map(({ segment, index }) => ({ folded: fold(segment), from: index, to: index + segment.length }));
}

function fold(word: string): string {
  return word.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}
