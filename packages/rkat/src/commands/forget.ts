import { invalid, RuntimeError } from "@rkat/core/contract/error";
import type { ForgetReceipt, ForgetResult, Going, PruneResult } from "@rkat/core/contract/forget";
import { Option } from "commander";
import { askLine, canAsk } from "../chat/ask-person.ts";
import { type Call, type CommandRow, command, type OpenedCall, onOpened, print, show } from "../command-row.ts";
import { fieldOptions, fieldsOf, jsonFlag, wholeFrom } from "../flags.ts";
import {
  alignColumns,
  bytesText,
  counted,
  createPaint,
  grouped,
  type Io,
  linesOf,
  type Output,
  oneLine,
  writeJson,
} from "../io.ts";
import { loadHere, type Opened } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { createIndexCount, whileWaiting } from "../progress.ts";
import { findSession, SELECTOR_NOTE, shortId } from "../session-selector.ts";
import { everySession } from "../transfer/session-transfer.ts";

interface ForgetFlags {
  readonly session?: string;
  readonly text?: string;
  readonly query?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

export const forgetRows: readonly CommandRow[] = [
  command("memory forget", {
    text: "Erase a session, a message, an agent's memory or a text, with a signed receipt: from the log, memory, summaries, files and forks of this folder. It checks every byte that is left, and asks first; an erasure cannot be undone.",
    flags: () => [...fieldOptions("forget", { query: chosenFlag }), YES(), jsonFlag()],
    examples: [
      ["rkat memory forget --text ada@example.org --dry-run", "what would be erased"],
      ["rkat memory forget --text - < secret.txt", "a text that the shell's history must not keep"],
      ["rkat memory forget --session last --seq 7 --yes", "one message"],
      ["rkat memory forget --query 'the address of Ada'", "choose from the messages a search finds"],
      ["rkat memory forget --agent ada", "everything an agent remembers"],
    ],
    notes: [
      SELECTOR_NOTE,
      ["Not touched", "your own files in the project, exports, back-ups; docs/privacy.md says what to do."],
      ["Exit codes", "0 forgotten, or a dry run · 2 wrong input · 10 not there · 11 busy · 14 not confirmed"],
    ],
    run: onOpened<ForgetFlags>(({ io, opened, flags }) => forgetAndShow(io, opened, flags)),
  }),
  command("memory erasures [RECEIPT]", {
    text: "List erasure receipts, and check the signature of each; a receipt is named by the beginning of its id.",
    former: ["forgettings"],
    flags: () => [jsonFlag()],
    examples: [
      ["rkat memory erasures", "all of them, oldest first"],
      ["rkat memory erasures 01a1e8bb-66e8", "one receipt, in words"],
      ["rkat memory erasures 01a1e8bb-66e8 --json", "one with its signature, to hand on"],
    ],
    run: onOpened(showErasures),
  }),
];

const YES = (): Option => new Option("-y, --yes", "do not ask");

/** A program names messages in a list; a person chooses from one. */
function chosenFlag(option: Option): Option {
  option.description = "list the messages that a search finds, and erase those that you choose";
  return option;
}

async function forgetAndShow(io: Io, opened: Opened, flags: ForgetFlags): Promise<void> {
  const { session, text, query, dryRun = false, yes = false, json = false } = flags;
  const named = session === undefined ? {} : { session_id: await findSession(opened, session) };
  if (query !== undefined && !dryRun && (yes || !canAsk(io))) {
    const why = "a search also finds similar messages, so you must choose";
    throw invalid(`--query: ${why}; look with --dry-run, then name --session and --seq`);
  }
  const said = text === "-" ? { query_exact: await pipedText(io) } : {};
  const asked = { ...fieldsOf("forget", flags), ...named, ...said };
  const { words, indexed } = createIndexCount(opened.runtime, "looking for it");
  const preview = await whileWaiting(io, words, () =>
    opened.runtime.dispatch("forget", { ...asked, dry_run: true }, { indexed }),
  );
  if (dryRun && json) return writeJson(io, preview);
  const isNothing = preview.going.length + preview.logs.length + (preview.settings ?? 0) === 0;
  if (isNothing && (dryRun || query !== undefined)) return printNothing(io.stdout, opened);
  if (dryRun) return query === undefined ? showPreview(io, preview) : showFound(io, preview);
  const input = query === undefined ? { ...asked, dry_run: false } : { messages: await chooseMessages(io, preview) };
  if (query === undefined && !isNothing && !yes)
    await confirm(io, "Forget this for good?", (to) => showPreview(to, preview));
  const done = await whileWaiting(io, "forgetting", () => opened.runtime.dispatch("forget", input));
  if (json) return writeJson(io, done);
  if (done.receipt !== undefined) io.stdout.write(`${receiptLines(done.receipt).join("\n")}\n`);
  if (isNothing) await printNothing(io.stderr, opened);
}

/** Shows what was searched, so that the wrong folder is not taken for a clean one. */
async function printNothing(output: Output, { runtime }: Opened): Promise<void> {
  const sessions = await everySession(runtime, { archived: true });
  const { agents } = await runtime.dispatch("listAgents", {});
  const looked = `${counted(sessions.length, "session")} and ${counted(agents.length, "agent")}`;
  output.write(`No matches in ${looked}.\n`);
}

async function pipedText(io: Io): Promise<string> {
  if (io.stdin.kind !== "stream") throw invalid("--text -: pipe the text into the command");
  const lines: string[] = [];
  for await (const line of linesOf(io.stdin, "the text")) lines.push(line);
  return lines.join("\n").trim();
}

/** Asks for confirmation, after the preview; throws where the answer is not yes, or where no one can be asked. */
async function confirm(io: Io, question: string, preview: (io: Io) => void): Promise<void> {
  if (!canAsk(io)) throw invalid("--yes: no person can be asked here; look with --dry-run, then write --yes");
  preview({ ...io, stdout: io.stderr });
  const answer = await askLine(io, `${question} Write yes: `);
  if (answer.trim().toLowerCase() !== "yes") throw new RuntimeError("REQUEST_CANCELLED", "nothing was forgotten");
}

/** A search also finds similar messages, so the user chooses. */
async function chooseMessages(
  io: Io,
  preview: ForgetResult,
): Promise<readonly { readonly session_id: string; readonly seq: number }[]> {
  showGoing({ ...io, stdout: io.stderr }, preview.going, (_, at) => [String(at + 1)]);
  const answer = await askLine(io, "Forget which of them for good? Write numbers such as 1 3-5, or all: ");
  const numbers = numbersIn(answer, preview.going.length);
  return preview.going.flatMap(({ session_id, seq }, at) =>
    session_id !== undefined && numbers.has(at + 1) ? [{ session_id, seq }] : [],
  );
}

/** The chosen numbers; an answer that is not fully understood chooses nothing. */
function numbersIn(answer: string, last: number): ReadonlySet<number> {
  const words = answer.trim().toLowerCase() === "all" ? [`1-${last}`] : answer.split(/[\s,]+/).filter(Boolean);
  const numbers = new Set<number>();
  for (const word of words) {
    const [, first, end = first] = /^(\d{1,4})(?:-(\d{1,4}))?$/.exec(word) ?? [];
    const [from, to] = [Number(first), Number(end)];
    if (!(from >= 1 && from <= to && to <= last)) {
      throw new RuntimeError(
        "REQUEST_CANCELLED",
        `nothing was forgotten: ${oneLine(word, 40)} is not a number of the list`,
      );
    }
    for (let number = from; number <= to; number += 1) numbers.add(number);
  }
  if (numbers.size === 0) throw new RuntimeError("REQUEST_CANCELLED", "nothing was forgotten");
  return numbers;
}

const EXCERPT_CHARS = 72;

/** Kinds of entries as a person calls them. */
const KINDS: Readonly<Record<string, string>> = {
  turn_opened: "you",
  assistant: "model",
  tool_results: "tools",
  imported: "copy",
  memory_added: "memory",
  note_added: "note",
  schedule_set: "schedule",
};

function logName({ session_id, agent, schedule_id }: Pick<Going, "session_id" | "agent" | "schedule_id">): string {
  if (session_id !== undefined) return shortId(session_id);
  return agent === undefined ? `schedule ${schedule_id}` : `agent ${agent}`;
}

function showGoing(
  io: Pick<Io, "stdout">,
  going: readonly Going[],
  before: (row: Going, at: number) => readonly string[] = () => [],
): void {
  const rows = going.map((row, index) => [
    ...before(row, index),
    logName(row),
    `seq ${row.seq}`,
    KINDS[row.kind] ?? row.kind.replaceAll("_", " "),
    row.at.slice(0, 16).replace("T", " "),
    oneLine(row.excerpt ?? "", EXCERPT_CHARS),
  ]);
  for (const line of alignColumns(rows)) io.stdout.write(`${line}\n`);
}

function showFound(io: Io, { going }: ForgetResult): void {
  const { dim } = createPaint(io.stdout, io.env);
  showGoing(io, going);
  io.stdout.write(
    `${dim("A search finds these, the nearest first; without --dry-run it asks which of them are meant.")}\n`,
  );
}

function showPreview(io: Pick<Io, "stdout" | "env">, { logs, going, more, settings = 0 }: ForgetResult): void {
  const { dim } = createPaint(io.stdout, io.env);
  showGoing(io, going);
  if (more > 0) io.stdout.write(`and ${grouped(more)} more\n`);
  const others = logs.filter(({ messages, cut }) => messages + cut === 0);
  for (const log of others)
    io.stdout.write(`${logName(log)}  no message of it, but a label, a title or another part\n`);
  const cut = logs.reduce((sum, log) => sum + log.cut, 0);
  const words = [
    `${counted(going.length + more, "message")} would go`,
    ...(cut === 0 ? [] : [`sentences of ${counted(cut, "summary")}`]),
    ...(settings === 0 ? [] : [`${counted(settings, "setting")} of the realm's configuration`]),
    ...(others.length === 0 ? [] : [`parts of ${counted(others.length, "log")}`]),
  ];
  io.stdout.write(`${dim(words.join(", and "))}\n`);
}

function receiptLines({
  forgetting_id,
  at,
  logs,
  blobs,
  settings,
  scan,
  quoted_in,
  backups,
}: ForgetReceipt): readonly string[] {
  const messages = logs.reduce((sum, log) => sum + log.messages, 0);
  const cut = logs.reduce((sum, log) => sum + log.cut, 0);
  // Encrypted data is known by its log alone.
  const isGone = scan.matches + quoted_in.length === 0;
  const found = isGone ? "0, nothing of it is left in this realm" : `${scan.matches}, listed below`;
  return [
    ...alignColumns([
      ["receipt", forgetting_id],
      ["at", at],
      ["forgotten", `${counted(messages, "message")} in ${counted(logs.length, "log")}`],
      ["cut", `sentences of ${counted(cut, "summary")}; ${counted(blobs, "file")} removed`],
      ...(settings === undefined
        ? []
        : [["settings", `${counted(settings, "setting")} removed from the configuration`]]),
      ["looked at", `${grouped(scan.places)} files and tables, ${bytesText(scan.bytes)}`],
      ["matches", found],
    ]),
    // Several texts of one message may be in the same place.
    ...new Set(scan.elsewhere.map(({ place, form }) => `  still in ${place} (${form})`)),
    ...quoted_in.map(
      ({ seq, ...log }) => `  said again in ${log.session_id ?? logName(log)}, seq ${seq}; forget that, too`,
    ),
    ...backups.map(
      ({ place, at: made }) => `  back-up of before: ${place}, made ${made}; bring it up to date, or delete it`,
    ),
  ];
}

async function showErasures({ io, opened, paint, flags, arg }: OpenedCall): Promise<void> {
  const id = arg("receipt");
  const reported = await opened.runtime.dispatch("listForgettings", {});
  const receipts = reported.forgettings.map((signed) => {
    const read = JSON.parse(signed.receipt) as ForgetReceipt; // As the runtime signed it.
    return { signed, read, word: signed.valid ? "right" : paint.red("WRONG") };
  });
  if (id !== undefined) {
    const [one, another] = receipts.filter(({ read }) => id !== "" && read.forgetting_id.startsWith(id));
    if (one === undefined || another !== undefined) {
      const what = one === undefined ? "no receipt begins" : "several receipts begin";
      const message = `receipt: ${what} with ${oneLine(id, 40)}; rkat memory erasures lists them`;
      throw invalid(message);
    }
    return flags.json ? writeJson(io, one.signed) : print(io, [...receiptLines(one.read), `signature  ${one.word}`]);
  }
  if (flags.json) return writeJson(io, reported);
  const rows = receipts.map(({ read: { forgetting_id, at, target, logs, scan }, word }) => {
    const messages = logs.reduce((sum, log) => sum + log.messages, 0);
    const left = scan.matches === 0 ? "nothing" : counted(scan.matches, "place");
    return [forgetting_id, at, target, grouped(messages), left, word];
  });
  const head = ["RECEIPT", "AT", "OF A", "MESSAGES", "LEFT", "SIGNATURE"];
  print(io, rows.length === 0 ? "Nothing was forgotten yet." : alignColumns([head, ...rows]));
  if (reported.unfinished > 0) print(io, `${counted(reported.unfinished, "forgetting")} in progress`);
}

interface PruneFlags {
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

export const pruneRow = command("prune", {
  text: "Erase sessions past their retention period, the oldest first, and show one signed receipt. It asks first; an erasure cannot be undone. [retention] of the configuration sets the period.",
  flags: () => [...fieldOptions("prune", { limit: (limit) => limit.argParser(wholeFrom(1)) }), YES(), jsonFlag()],
  examples: [
    ["rkat prune --dry-run", "what would be erased, and why"],
    ["rkat prune --yes --limit 1000", "at night"],
  ],
  notes: [
    ["How long", '[retention] sessions = "90d", and by label [retention.labels] "team=core" = "30d" or "forever"'],
    ["Exit codes", "0 also when nothing is due · 2 no retention is configured · 14 not confirmed"],
  ],
  run: (call: Call<PruneFlags>) =>
    onOpened(prune)(call).catch(async (thrown: unknown) => {
      throw (await untrustedRetention(call.invocation, thrown)) ?? thrown;
    }),
});

async function prune(call: OpenedCall<PruneFlags>): Promise<void> {
  const { io, opened, flags } = call;
  const { dryRun = false, yes = false } = flags;
  const ask = (dry_run: boolean, words: string): Promise<PruneResult> =>
    whileWaiting(io, words, () => opened.runtime.dispatch("prune", { ...fieldsOf("prune", flags), dry_run }));
  if (dryRun || !yes) {
    const preview = await ask(true, "looking for what is due");
    if (dryRun || preview.sessions.length === 0) return show(call, preview, () => pruneLines(io, preview));
    await confirm(io, "Forget these sessions for good?", (to) => print(to, pruneLines(to, preview)));
  }
  const done = await ask(false, "forgetting");
  show(call, done, () => pruneLines(io, done));
}

/** The advice where the project has a retention that is not trusted. */
async function untrustedRetention(invocation: Invocation, thrown: unknown): Promise<RuntimeError | undefined> {
  if (!(thrown instanceof RuntimeError) || !thrown.message.startsWith("retention: ")) return undefined;
  const leftOut = (await loadHere(invocation)).brought.filter(({ isObeyed }) => !isObeyed);
  const file = leftOut.find(({ requests }) => requests.some(({ name }) => name.startsWith("retention.")));
  const how = "counts once this project is trusted; run rkat trust, or add --trust for this run only";
  return file && invalid(`[retention] of ${file.path} ${how}`);
}

const TITLE_CHARS = 60;

function pruneLines(io: Io, reported: PruneResult): readonly string[] {
  const { dim } = createPaint(io.stdout, io.env);
  const rows = reported.sessions.map(({ session_id, updated_at, rule, kept_for, title = "" }) => [
    shortId(session_id),
    updated_at.slice(0, 16).replace("T", " "),
    oneLine(`${rule} ${kept_for}`, TITLE_CHARS),
    oneLine(title, TITLE_CHARS),
  ]);
  const lines = [...alignColumns(rows), ...(reported.receipt === undefined ? [] : receiptLines(reported.receipt))];
  const verb = reported.dry_run ? "would go" : "went";
  const more = reported.more === 0 ? "" : `, ${grouped(reported.more)} more the next time`;
  const busy = reported.busy === 0 ? "" : `; ${grouped(reported.busy)} busy or locked, kept until then`;
  const sum =
    reported.sessions.length === 0 ? "No session is due" : `${counted(reported.sessions.length, "session")} ${verb}`;
  return [...lines, dim(`${sum}${more}${busy}`)];
}
