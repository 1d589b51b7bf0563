import { RuntimeError } from "../../../contract/error.ts";
import type { PruneResult } from "../../../contract/prune.ts";
import { type Call, command, type OpenedCall, onOpened, print, show } from "../command-row.ts";
import { fieldOptions, fieldsOf, jsonFlag, wholeFrom } from "../flags.ts";
import { alignColumns, counted, createPaint, grouped, type Io, oneLine } from "../io.ts";
import { loadHere } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { whileWaiting } from "../progress.ts";
import { shortId } from "../session-selector.ts";
import { confirm, receiptLines, YES } from "./forget.ts";

interface PruneFlags {
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

/** `rkat prune`. */
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

/** Where the project's own retention is not trusted, that is what to do, and not to write another. */
async function untrustedRetention(invocation: Invocation, thrown: unknown): Promise<RuntimeError | undefined> {
  if (!(thrown instanceof RuntimeError) || !thrown.message.startsWith("retention: ")) return undefined;
  const leftOut = (await loadHere(invocation)).brought.filter(({ isObeyed }) => !isObeyed);
  const file = leftOut.find(({ requests }) => requests.some(({ name }) => name.startsWith("retention.")));
  const how = "counts once this project is trusted; run rkat trust, or add --trust for this run only";
  return file && new RuntimeError("INVALID_PARAMS", `[retention] of ${file.path} ${how}`);
}

const TITLE_CHARS = 60;

function pruneLines(io: Io, told: PruneResult): readonly string[] {
  const { dim } = createPaint(io.stdout, io.env);
  const rows = told.sessions.map(({ session_id, updated_at, rule, kept_for, title = "" }) => [
    shortId(session_id),
    updated_at.slice(0, 16).replace("T", " "),
    oneLine(`${rule} ${kept_for}`, TITLE_CHARS),
    oneLine(title, TITLE_CHARS),
  ]);
  const lines = [...alignColumns(rows), ...(told.receipt === undefined ? [] : receiptLines(told.receipt))];
  const verb = told.dry_run ? "would go" : "went";
  const more = told.more === 0 ? "" : `, ${grouped(told.more)} more the next time`;
  const busy = told.busy === 0 ? "" : `; ${grouped(told.busy)} in a turn or held by somebody, kept until that is over`;
  const sum = told.sessions.length === 0 ? "No session is due" : `${counted(told.sessions.length, "session")} ${verb}`;
  return [...lines, dim(`${sum}${more}${busy}`)];
}
