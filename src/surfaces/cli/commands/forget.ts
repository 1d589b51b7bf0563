import type { Command } from "commander";
import { RuntimeError } from "../../../contract/error.ts";
import type { ForgetReceipt, ForgetResult } from "../../../contract/forget.ts";
import type { OperationOutput } from "../../../contract/operations.ts";
import { askLine, canAsk } from "../ask-person.ts";
import { addFieldFlags, fieldsOf } from "../flags.ts";
import { describeHelp } from "../help.ts";
import { alignColumns, bytesText, counted, createPaint, grouped, type Io, linesOf, oneLine, writeJson } from "../io.ts";
import { type Opened, withSessions } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { whileWaiting } from "../progress.ts";
import { findSession, SELECTOR_NOTE, shortId } from "../session-selector.ts";

interface ForgetFlags {
  readonly session?: string;
  readonly text?: string;
  readonly query?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

/** Declares `rkat memory forget` and `rkat memory forgettings`. */
export function addForgetCommands(memory: Command, invocation: Invocation): void {
  const forget = addFieldFlags(memory.command("forget"), "forget")
    .summary("erase a session, a message, an agent's memory or a text, with a receipt")
    .description(
      "Erases what was said from the log, memory, summaries, files and forks of this folder, looks at every byte that is " +
        "left, and shows a signed receipt. It asks first; what is forgotten does not come back.",
    )
    .option("-y, --yes", "do not ask")
    .option("--json", "as JSON")
    .action((flags: ForgetFlags) => withSessions(invocation, (opened) => forgetAndShow(invocation.io, opened, flags)));
  describeHelp(forget, {
    examples: [
      ["rkat memory forget --text ada@example.org --dry-run", "what would go"],
      ["rkat memory forget --text - < secret.txt", "a text that no history of commands is to keep"],
      ["rkat memory forget --session last --seq 7 --yes", "one message"],
      ["rkat memory forget --query 'the address of Ada'", "what a search finds, once it is confirmed"],
      ["rkat memory forget --agent ada", "everything an agent remembers"],
    ],
    notes: [
      SELECTOR_NOTE,
      ["Exit codes", "0 forgotten, or a dry run · 2 wrong input · 10 not there · 11 busy · 130 not confirmed"],
    ],
  });
  const list = memory
    .command("forgettings")
    .summary("list the receipts of what was forgotten")
    .description("Lists the signed receipts of what was forgotten here, and says whether each signature is right.")
    .option("--json", "as JSON")
    .action((flags: { readonly json?: boolean }) =>
      withSessions(invocation, (opened) => showForgettings(invocation.io, opened, flags)),
    );
  describeHelp(list, { examples: [["rkat memory forgettings --json", "with the signatures, to hand on"]] });
}

async function forgetAndShow(io: Io, opened: Opened, flags: ForgetFlags): Promise<void> {
  const { session, text, query, dryRun = false, json = false } = flags;
  const named = session === undefined ? {} : { session_id: await findSession(opened, session) };
  const said = text === "-" ? { query_exact: await pipedText(io) } : {};
  const asked = { ...fieldsOf("forget", flags), ...named, ...said };
  const preview = await whileWaiting(io, "looking for it", () =>
    opened.runtime.dispatch("forget", { ...asked, dry_run: true }),
  );
  if (dryRun) return json ? writeJson(io, preview) : showPreview(io, preview);
  if (query !== undefined && preview.going.length === 0) return showPreview(io, preview);
  await confirm(io, preview, flags);
  const messages = preview.going.flatMap(({ session_id, seq }) =>
    session_id === undefined ? [] : [{ session_id, seq }],
  );
  const input = query === undefined ? { ...asked, dry_run: false } : { messages };
  const done = await whileWaiting(io, "forgetting", () => opened.runtime.dispatch("forget", input));
  if (json) return writeJson(io, done);
  if (done.receipt !== undefined) io.stdout.write(`${receiptLines(done.receipt).join("\n")}\n`);
}

async function pipedText(io: Io): Promise<string> {
  if (io.stdin.kind !== "stream") throw new RuntimeError("INVALID_PARAMS", "--text -: pipe the text into the command");
  const lines: string[] = [];
  for await (const line of linesOf(io.stdin, "the text")) lines.push(line);
  return lines.join("\n").trim();
}

/** Nothing goes before a person has said so. */
async function confirm(io: Io, preview: ForgetResult, { yes = false }: ForgetFlags): Promise<void> {
  if (yes) return;
  if (!canAsk(io)) {
    throw new RuntimeError("INVALID_PARAMS", "--yes: nobody can be asked here; look with --dry-run, then write --yes");
  }
  showPreview({ ...io, stdout: io.stderr }, preview);
  const answer = await askLine(io, "Forget this for good? Write yes: ");
  if (answer.trim().toLowerCase() !== "yes") throw new RuntimeError("REQUEST_CANCELLED", "nothing was forgotten");
}

const EXCERPT_CHARS = 72;

function showPreview(io: Pick<Io, "stdout" | "env">, { logs, going, more }: ForgetResult): void {
  const { dim } = createPaint(io.stdout, io.env);
  if (going.length === 0 && logs.length === 0) {
    io.stdout.write("Nothing says it.\n");
    return;
  }
  const rows = going.map(({ session_id, agent, seq, kind, at, excerpt = "" }) => [
    session_id === undefined ? `agent ${agent}` : shortId(session_id),
    String(seq),
    kind,
    at.slice(0, 16).replace("T", " "),
    oneLine(excerpt, EXCERPT_CHARS),
  ]);
  for (const line of alignColumns(rows)) io.stdout.write(`${line}\n`);
  if (more > 0) io.stdout.write(`and ${grouped(more)} more\n`);
  const cut = logs.reduce((sum, log) => sum + log.cut, 0);
  const total = going.length + more;
  const words = `${counted(total, "message")} would go${cut === 0 ? "" : `, and sentences of ${counted(cut, "summary")}`}`;
  io.stdout.write(`${dim(words)}\n`);
}

function receiptLines({ forgetting_id, logs, blobs, scan, quoted_in, backups }: ForgetReceipt): readonly string[] {
  const messages = logs.reduce((sum, log) => sum + log.messages, 0);
  const cut = logs.reduce((sum, log) => sum + log.cut, 0);
  // What is sealed is told by its log alone.
  const isGone = scan.matches + quoted_in.length === 0;
  const found = isGone ? "0, nothing of it is left" : `${scan.matches}, told below`;
  return [
    ...alignColumns([
      ["receipt", forgetting_id],
      ["forgotten", `${counted(messages, "message")} in ${counted(logs.length, "log")}`],
      ["cut", `sentences of ${counted(cut, "summary")}; ${counted(blobs, "file")} removed`],
      ["looked at", `${grouped(scan.places)} files and tables, ${bytesText(scan.bytes)}`],
      ["matches", found],
    ]),
    ...scan.elsewhere.map(({ place, form }) => `  still in ${place} (${form})`),
    ...quoted_in.map(({ session_id, agent, seq }) => `  said again in ${session_id ?? `agent ${agent}`}, seq ${seq}`),
    ...backups.map(({ place, at }) => `  back-up of before: ${place}, made ${at}`),
  ];
}

async function showForgettings(io: Io, { runtime }: Opened, { json }: { readonly json?: boolean }): Promise<void> {
  const told: OperationOutput<"listForgettings"> = await runtime.dispatch("listForgettings", {});
  if (json) return writeJson(io, told);
  const { red } = createPaint(io.stdout, io.env);
  if (told.forgettings.length === 0) io.stdout.write("Nothing was forgotten yet.\n");
  const rows = told.forgettings.map(({ receipt, valid }) => {
    // As the runtime signed it.
    const { forgetting_id, at, target, scan } = JSON.parse(receipt) as ForgetReceipt;
    return [
      forgetting_id,
      at,
      target,
      counted(scan.matches, "place"),
      valid ? "signature right" : red("SIGNATURE WRONG"),
    ];
  });
  for (const line of alignColumns(rows)) io.stdout.write(`${line}\n`);
  if (told.unfinished > 0) io.stdout.write(`${counted(told.unfinished, "forgetting")} goes on\n`);
}
