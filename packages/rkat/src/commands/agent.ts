import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { LongtermQuality, Remaking } from "@rkat/core/contract/agent";
import {
  type AgentCompacted,
  type AgentHistory,
  type AgentReceipt,
  type AgentStatus,
  Remember,
  TakeNote,
} from "@rkat/core/contract/agent";
import { ERRORS, invalid, RuntimeError } from "@rkat/core/contract/error";
import { invalidInput } from "@rkat/core/contract/input";
import type { OperationInput, OperationOutput } from "@rkat/core/contract/operations";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { Option } from "commander";
import {
  type Call,
  type CommandRow,
  command,
  type OpenedCall,
  onOpened,
  operation,
  print,
  type View,
} from "../command-row.ts";
import { writeError } from "../failure.ts";
import { fieldOptions, fieldsOf, jsonFlag } from "../flags.ts";
import {
  ageSince,
  alignColumns,
  counted,
  createPaint,
  grouped,
  type Io,
  indented,
  interruptedExit,
  jsonText,
  linesOf,
  momentText,
  oneLine,
  table,
  writeJson,
} from "../io.ts";
import { isThere, type Opened, withRuntime } from "../open-runtime.ts";
import { createLogLines, createProgress } from "../progress.ts";
import { type ReceiptView, receiptLines } from "./receipt-lines.ts";

export const agentRows: readonly CommandRow[] = [
  command("agent", {
    text: "Give agents memories, show and compact them: the newest are kept word for word, those before in a short-term summary, all older ones in a long-term summary. Nothing is deleted.",
    also: ["agents"],
    notes: [
      [
        "An agent is named by",
        'letters, digits, "_" and "-", beginning with a letter or digit; upper and lower case differ',
      ],
      [
        "Exit codes",
        "0 done, or nothing to do · 2 wrong input · 30 a compaction failed · 31 the store failed",
        "40 without session-store",
      ],
    ],
  }),
  command("agent remember NAME [TEXT…]", {
    text: "Add a memory, or one per line of stdin. A compaction that becomes due runs before the command ends, and is reported on stderr.",
    usage: "NAME TEXT… [options]",
    flags: () => [
      ...fieldOptions("remember"),
      new Option("--json", "as JSON; of several memories, the answer to the last"),
    ],
    examples: [
      ["rkat agent remember ada I saw a heron", "quotes are not needed"],
      ['rkat agent remember ada "It flew away" --metadata \'{"place": "pond"}\'', "with facts about it"],
      ["rkat agent remember ada < diary.txt", "each line that is not empty"],
      ["rkat agent remember ada -- -3 degrees today", "a text that begins with a dash"],
    ],
    notes: [["From stdin", "with - for the text, or without one: each line that is not empty is a memory"]],
    run: remember,
  }),
  command("agent note NAME [TEXT…]", {
    text: "Add a private note; the agent's context shows it when the newest memories mention its subject.",
    usage: "NAME TEXT… [options]",
    flags: () => [...fieldOptions("takeNote"), jsonFlag()],
    examples: [
      ['rkat agent note ada "The pond freezes in January" --title pond', "shown when the pond is mentioned"],
      ["rkat agent note ada - < recipe.md", "a whole file"],
    ],
    run: takeNote,
  }),
  operation("agent context NAME", "readAgentContext", {
    examples: [
      ["rkat agent context ada", "all of it"],
      ["rkat agent context ada --immediate 5", "only the newest five word for word"],
    ],
    view: ({ prompt, immediate }, { io, arg }) => {
      if (immediate.length === 0)
        io.stderr.write(`${createPaint(io.stderr, io.env).dim(strangerText(arg("name") ?? ""))}\n`);
      return io.stdout.isTerminal ? withoutControls(prompt) : prompt;
    },
  }),
  operation("agent status NAME", "readAgentStatus", {
    examples: [["rkat agent status ada", "in a chat, @memory-status does the same"]],
    view: agentStatusLines,
  }),
  operation("agent history NAME", "readAgentHistory", {
    examples: [["rkat agent history ada --limit 3", "those of the last three compactions"]],
    view: historyLines,
  }),
  operation<"readAgentReceipt", { readonly json?: boolean; readonly all?: boolean }>(
    "agent receipt NAME",
    "readAgentReceipt",
    {
      flags: () => [new Option("--all", "list every specific")],
      examples: [
        ["rkat agent receipt ada", "of the last compaction"],
        ["rkat agent receipt ada --seq 194 --all", "of the one that the history gives this seq"],
      ],
      view: agentReceiptLines,
    },
  ),
  command("agent export NAME", {
    text: "Print an agent's whole log, one entry per line: every memory, note and summary, oldest first.",
    flags: () => [
      ...fieldOptions("exportAgent"),
      new Option("--json", "instead, one page of it as agent/export answers it"),
    ],
    examples: [["rkat agent export ada | jq -r .body.content", "everything it remembers"]],
    run: onOpened(exportAgent),
  }),
  operation("agent list", "listAgents", {
    examples: [["rkat agent list", "how much each remembers, and since when"]],
    view: ({ agents }, { paint }) => {
      if (agents.length === 0) return "No agents found.";
      // Names come last: some scripts are wider than their letters are many, and nothing after them stays aligned.
      return table(
        paint,
        ["MEMORIES", "CHANGED", "SINCE", "AGENT"],
        agents.map(({ agent, count, created_at, updated_at }) => [
          grouped(count).padStart("MEMORIES".length),
          ageSince(updated_at),
          ageSince(created_at),
          agent,
        ]),
      );
    },
  }),
  command("agent compact NAME", {
    text:
      "Compact an agent's memories now, whether or not it is due: memories that left the immediate window become the " +
      "short-term summary, and the one before goes into the long-term summary.",
    flags: () => [jsonFlag()],
    examples: [["rkat agent compact ada", "in a chat, @compact-memories does the same"]],
    notes: [["Exit codes", "0 done, or nothing to do · 30 it failed, and both summaries are as they were"]],
    run: onOpened((call) =>
      compactAgent(call, { agent: call.arg("name") ?? "", ...call.flags, signal: call.io.interrupt }),
    ),
  }),
];

/** Prints an agent's log: all of it from a seq on, or one page as it is answered. */
async function exportAgent({
  io,
  opened,
  flags,
  arg,
}: OpenedCall<{ readonly json?: boolean; readonly after?: number }>): Promise<void> {
  const input = { agent: arg("name"), ...fieldsOf("exportAgent", flags) };
  let after: number | undefined = flags.after ?? 0;
  while (after !== undefined) {
    const page: OperationOutput<"exportAgent"> = await opened.runtime.dispatch("exportAgent", { ...input, after });
    if (flags.json) return writeJson(io, page);
    for (const entry of page.entries) io.stdout.write(`${jsonText(entry)}\n`);
    after = page.next_after;
  }
}

type Memory = OperationInput<"remember">;

async function remember(call: Call): Promise<void> {
  const { io, invocation, flags } = call;
  const agent = call.arg("name") ?? "";
  const memories = memoriesOf(call, agent);
  // Input that is refused makes no folder.
  const first = await memories.next();
  if (first.done) {
    const example = `rkat agent remember ${agent} "I saw a heron"`;
    throw invalid(`there is nothing to remember: write it, like ${example}, or pipe lines in`);
  }
  const progress = createProgress(io, "memories");
  const log = createLogLines(io);
  log.writeWithin(progress.aside);
  const use = async (opened: Opened): Promise<void> => {
    const tally: Tally = { added: 0 };
    try {
      await addAll(opened.runtime, { first: first.value, memories, tally, progress: progress.show });
    } catch (thrown) {
      // The user must know where to start when piping the rest again.
      if (tally.added > 0) progress.aside(() => io.stderr.write(`${sentenceOf(agent, tally)}\n`));
      throw thrown;
    } finally {
      progress.clear();
    }
    await compactionSettled(opened, agent, io.interrupt);
    if (flags.json) writeJson(io, tally.last);
    else print(io, sentenceOf(agent, tally));
    invocation.exitWith(interruptedExit(io) ?? 0);
  };
  await withRuntime(invocation, use, { log: log.print });
}

/** A text is one memory, piped lines are one each; all of them are valid. */
async function* memoriesOf({ io, flags, arg }: Call, agent: string): AsyncGenerator<Memory, undefined> {
  const written = arg("text");
  const fields = fieldsOf("remember", flags);
  const memory = (content: string, place: string): Memory => {
    const { data, error } = Remember.safeParse({ agent, content, ...fields });
    if (data !== undefined) return data;
    const { message } = invalidInput(error);
    throw invalid(`${place}${message}`);
  };
  if (!isPiped(io, written)) {
    if (written !== undefined) yield memory(written, "");
    return undefined;
  }
  let line = 0;
  for await (const text of textLines(io, written)) {
    line += 1;
    if (text.trim() !== "") yield memory(text.trimEnd(), `line ${line} of stdin: `);
  }
  return undefined;
}

interface Remembering {
  dispatch(name: "remember", memory: Memory): Promise<OperationOutput<"remember">>;
}

interface Tally {
  added: number;
  last?: OperationOutput<"remember">;
}

interface Adding {
  readonly first: Memory;
  readonly memories: AsyncIterable<Memory>;
  readonly tally: Tally;
  progress(added: number): void;
}

/** The most requests in flight: they are written together, in order. */
const AHEAD_MAX = 64;

async function addAll(runtime: Remembering, { first, memories, tally, progress }: Adding): Promise<void> {
  const ahead: Promise<void>[] = [];
  const add = (memory: Memory): void => {
    const added = runtime.dispatch("remember", memory).then((remembered) => {
      tally.added += 1;
      // Their answers may come in another order than they do.
      if (remembered.count > (tally.last?.count ?? 0)) tally.last = remembered;
      progress(tally.added);
    });
    added.catch(() => {}); // It is waited for below, perhaps later than it fails.
    ahead.push(added);
  };
  try {
    add(first);
    for await (const memory of memories) {
      add(memory);
      if (ahead.length >= AHEAD_MAX) await ahead.shift();
    }
    await Promise.all(ahead);
  } finally {
    await Promise.allSettled(ahead);
  }
}

function sentenceOf(agent: string, { added, last }: Tally): string {
  const count = last?.count ?? added;
  if (added === 1) return `Remembered. ${agent} has ${counted(count, "memory")}.`;
  return `Remembered ${counted(added, "memory")}. ${agent} has ${grouped(count)}.`;
}

/** Keeps the text, or all of stdin, as a private note of an agent. */
async function takeNote({ io, invocation, flags, arg }: Call): Promise<void> {
  const agent = arg("name") ?? "";
  const written = arg("text");
  const content = await noteText(io, written);
  if (content.trim() === "" && written === undefined) {
    const example = `rkat agent note ${agent} "The pond freezes in May"`;
    throw invalid(`there is nothing to note: write it, like ${example}, or pipe it in`);
  }
  const { data: note, error } = TakeNote.safeParse({ agent, content, ...fieldsOf("takeNote", flags) });
  // Input that is refused makes no folder.
  if (note === undefined) throw invalidInput(error);
  await withRuntime(invocation, async ({ runtime }) => {
    const taken = await runtime.dispatch("takeNote", note);
    if (flags.json) writeJson(io, taken);
    else print(io, `Noted. ${agent} has ${counted(taken.notes, "note")}.`);
  });
}

/** More than any note may hold: what is read of a longer text is enough to refuse it. */
const CHARS_READ_MAX = 2_000_000;

async function noteText(io: Io, written: string | undefined): Promise<string> {
  if (!isPiped(io, written)) return written ?? "";
  let text = "";
  for await (const line of textLines(io, written)) {
    text += `${line}\n`;
    if (text.length > CHARS_READ_MAX) break;
  }
  return text.trimEnd();
}

interface AgentToCompact {
  readonly agent: string;
  readonly json?: boolean;
  readonly signal: AbortSignal;
}

export async function compactAgent(
  { io, invocation, opened, paint }: Pick<OpenedCall, "io" | "invocation" | "opened" | "paint">,
  { agent, json, signal }: AgentToCompact,
): Promise<void> {
  const result = await unlessAborted(opened.runtime.dispatch("compactAgent", { agent }, { signal }), signal);
  const failure = await failureOf(opened, agent, result);
  if (json) {
    writeJson(io, result);
    if (failure === undefined) return;
    writeError(io, failure);
    return invocation.exitWith(ERRORS[failure.code].exit);
  }
  if (failure !== undefined) throw failure;
  if (!result.compacted) return print(io, `Not compacted: ${withoutControls(result.reason ?? "")}.`);
  const status = await opened.runtime.dispatch("readAgentStatus", { agent });
  print(io, ["Compacted.", ...(await agentStatusLines(status, { opened, paint }))]);
}

/** Stops waiting when aborted; the compaction continues in the background. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const stop = (): void =>
    aborted.reject(
      new RuntimeError("REQUEST_CANCELLED", "stopped waiting; the compaction continues in the background"),
    );
  signal.addEventListener("abort", stop);
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** The operation answers why nothing was compacted; only a failure is also in the status. */
async function failureOf(
  { runtime }: Opened,
  agent: string,
  { compacted, reason }: AgentCompacted,
): Promise<RuntimeError | undefined> {
  if (compacted || reason === undefined) return undefined;
  const { last_error } = await runtime.dispatch("readAgentStatus", { agent });
  if (last_error !== reason) return undefined;
  return new RuntimeError("AGENT_ERROR", `the compaction failed, and both summaries are as they were: ${reason}`);
}

/** Whether the text is to be read from stdin: `-` says so, and so does a pipe where no text was written. */
function isPiped({ stdin }: Io, written: string | undefined): boolean {
  return written === undefined ? stdin.kind === "stream" : written === "-";
}

/** A pipe that is silent for so long was perhaps inherited and may never end. */
const SILENCE_MS = 2_000;

/** The lines of stdin; prints that it waits where that may be unintended. */
async function* textLines(io: Io, written: string | undefined): AsyncGenerator<string> {
  const waiting = setTimeout(() => {
    if (written !== "-") io.stderr.write("Waiting for stdin to end; a text on the command line needs none.\n");
  }, SILENCE_MS);
  try {
    for await (const line of linesOf(io.stdin, "a memory")) {
      clearTimeout(waiting);
      yield line;
    }
  } finally {
    clearTimeout(waiting);
  }
}

const LOOK_MS = 100;

/**
 * Resolves when no compaction of the agent runs, or when the signal aborts. A closing runtime waits half a minute
 * for one: with a slow model each would be cut off, and started again by the next memory.
 */
export async function compactionSettled({ runtime }: Opened, agent: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const { compaction_running } = await runtime.dispatch("readAgentStatus", { agent });
    if (!compaction_running) return;
    await sleep(LOOK_MS, undefined, { signal }).catch(() => {});
  }
}

const COLUMNS_DEFAULT = 120;
const NOTE_CHARS_MAX = 1_000;

/** A compaction of an agent: its facts, then each summary with its receipt. */
function agentReceiptLines(
  answer: AgentReceipt,
  { io, paint, flags, arg }: OpenedCall<{ readonly all?: boolean }>,
): readonly string[] {
  const columns = io.stdout.columns ?? COLUMNS_DEFAULT;
  const view: ReceiptView = { paint, columns, isWhole: flags.all === true, allHint: "--all", of: "memories" };
  const { recent, longterm } = answer;
  return [
    paint.bold(`Compaction of ${arg("name")}, seq ${answer.seq}`),
    ...alignColumns(factRows(answer).map(([name, fact]) => [`   ${name}`, fact])),
    ...(longterm === undefined ? [] : tierLines("Long-term summary", longterm, view)),
    ...tierLines("Short-term summary", recent, view),
  ];
}

type Fact = readonly [name: string, fact: string];

function factRows(receipt: AgentReceipt): readonly Fact[] {
  const { created_at, at_count, forced, model, usage, notes, quality, remaking } = receipt;
  const why = forced ? "requested" : "due";
  return [
    ["when", momentText(created_at)],
    ["why", `${why}, with ${grouped(at_count)} memories`],
    ["written by", model ?? "no model: its sentences are quoted from the memories"],
    ["cost", `${grouped(usage.input_tokens)} tokens in / ${grouped(usage.output_tokens)} out`],
    ...notes.map((note): Fact => ["note", oneLine(note, NOTE_CHARS_MAX)]),
    ...(quality === undefined ? [] : [["quality", qualityText(quality)] as const]),
    ...(remaking === undefined ? [] : [["made anew", remakingText(remaking)] as const]),
  ];
}

/** `0.83: it has 5 of the 14 specifics of its sources, where 6 would fit`. */
function qualityText({ quality, kept, sources, attainable }: LongtermQuality): string {
  if (sources === 0) return `${quality}: its sources have no specifics`;
  const said = `it has ${grouped(kept)} of the ${grouped(sources)} specifics of its sources`;
  return `${quality}: ${said}${attainable > kept ? `, where ${grouped(attainable)} would fit` : ""}`;
}

function remakingText({ outcome, summaries, specifics, kept_before, kept_remade = 0, reason }: Remaking): string {
  const before = `${grouped(kept_before)} of ${grouped(specifics)} specifics`;
  const of = `${grouped(summaries)} short-term summaries`;
  switch (outcome) {
    case "remade":
      return `of ${of}: it says ${grouped(kept_remade)} of ${grouped(specifics)} specifics now, ${grouped(kept_before)} before`;
    case "not_needed":
      return `no: compared with ${of}, it has what can be kept, ${before}`;
    case "not_better":
      return `no: of ${of} it would say ${grouped(kept_remade)} of ${grouped(specifics)} specifics, now ${grouped(kept_before)}`;
    case "failed":
      return `no: ${oneLine(reason ?? "it failed", NOTE_CHARS_MAX)}; it says ${before} of ${of}`;
  }
}

function tierLines(title: string, tier: AgentReceipt["recent"], view: ReceiptView): readonly string[] {
  const { from, to, summary, by, receipt } = tier;
  const { bold, dim } = view.paint;
  return [
    "",
    `${bold(`${title} of memories ${grouped(from)} to ${grouped(to)}`)}${by === "extractive" ? dim("  extractive") : ""}`,
    ...indented(summary),
    "",
    ...(receipt === undefined ? [dim(NO_RECEIPT)] : receiptLines(receipt, view)),
  ];
}

const NO_RECEIPT = "It was written before receipts existed.";

function historyLines({ summaries, next_before_seq }: AgentHistory, { paint, arg }: OpenedCall): readonly string[] {
  const { bold, dim } = paint;
  return [
    ...summaries.flatMap(({ seq, created_at, tier, from, to, summary, receipt, quality, remaking }) => [
      bold(`${tier === "recent" ? "short-term" : "long-term"} summary of memories ${from} to ${to}`) +
        `  ${dim(`seq ${seq}, ${created_at}`)}`,
      withoutControls(summary).trimEnd(),
      dim(`   ${receipt === undefined ? "no receipt" : countsText(receipt)}`),
      ...(quality === undefined ? [] : [dim(`   quality ${qualityText(quality)}`)]),
      ...(remaking === undefined ? [] : [dim(`   made anew ${remakingText(remaking)}`)]),
      "",
    ]),
    ...(summaries.length === 0 ? ["No memories were compacted."] : []),
    ...(next_before_seq === undefined
      ? []
      : [dim(`Older ones: rkat agent history ${arg("name")} --before ${next_before_seq}`)]),
  ];
}

function countsText(counts: NonNullable<AgentHistory["summaries"][number]["receipt"]>): string {
  const { total, in_summary, in_tail, recoverable, lost, verdict } = counts;
  const places = `${grouped(in_summary + in_tail)} in view, ${grouped(recoverable)} recoverable, ${grouped(lost)} lost`;
  return `${verdict} ${counted(total, "fact")}: ${places}`;
}

const PROBLEM = "problem";
const SENTENCE_CHARS_MAX = 1_000;

/** What an agent remembers: counts, tiers, the last compaction and the next, then both summaries. */
export async function agentStatusLines(
  status: AgentStatus,
  { opened, paint }: Pick<View, "opened" | "paint">,
): Promise<readonly string[]> {
  const { agent, count, notes, immediate_count, immediate_window, compactions, last_compaction_at, last_error } =
    status;
  const folder = join(opened.place.stateFolder, ".rkat", "agents", agent);
  const hasFiles = opened.config.store.url === undefined && (await isThere(folder));
  const newest = rangeText({ from_seq: count - immediate_count + 1, to_seq: count });
  const made =
    last_compaction_at === undefined
      ? "none yet"
      : `${grouped(compactions)}, the last ${momentText(last_compaction_at)}`;
  const rows = [
    ["agent", agent],
    ["memories", grouped(count)],
    ["notes", grouped(notes)],
    [
      "immediate",
      immediate_count === 0 ? "none" : `${newest}, word for word; the window is ${grouped(immediate_window)}`,
    ],
    ["short-term", summaryText(status.recent_range)],
    ["long-term", summaryText(status.longterm_range)],
    ["compactions", made],
    ["next", nextText(status)],
    ...(last_error === undefined ? [] : [[PROBLEM, oneLine(last_error, SENTENCE_CHARS_MAX)]]),
    ...(hasFiles ? [["files", folder]] : []),
  ];
  const section = (title: string, text: string | undefined): readonly string[] =>
    text === undefined ? [] : ["", paint.bold(title), ...indented(text)];
  return [
    ...alignColumns(rows).map((row) => (row.startsWith(PROBLEM) ? paint.yellow(row) : row)),
    ...section("Long-term summary", status.longterm_summary),
    ...section("Short-term summary", status.recent_summary),
    ...(count + notes === 0 ? ["", paint.dim(strangerText(agent))] : []),
  ];
}

type Range = NonNullable<AgentStatus["recent_range"]>;

function summaryText(range: Range | undefined): string {
  return range === undefined ? "none yet" : `${rangeText(range)}, in a summary`;
}

function rangeText({ from_seq, to_seq }: Range): string {
  if (from_seq === to_seq) return `memory ${grouped(to_seq)}`;
  return `memories ${grouped(from_seq)}–${grouped(to_seq)}`;
}

function nextText({ count, next_compaction_at, compaction_due, compaction_running, last_error }: AgentStatus): string {
  if (compaction_running) return "runs now";
  const left = next_compaction_at - count;
  const at = `at ${grouped(next_compaction_at)} memories`;
  if (left > 0) return `${at}, ${grouped(left)} from now`;
  // After a failure it is due as well, and is tried again with the next memory.
  return compaction_due && last_error === undefined ? `${at}: it is due` : `${at}: it is due, with the next memory`;
}

/** For a name that was never used: it may be mistyped. */
export function strangerText(agent: string): string {
  return `${agent} has no memories yet; rkat agent list shows the agents that do.`;
}
