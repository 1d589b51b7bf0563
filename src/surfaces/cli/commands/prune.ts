import type { Command, Option } from "commander";
import { RuntimeError } from "../../../contract/error.ts";
import type { PruneResult } from "../../../contract/prune.ts";
import { askLine, canAsk } from "../ask-person.ts";
import { addFieldFlags, fieldsOf, wholeFrom } from "../flags.ts";
import { describeHelp } from "../help.ts";
import { alignColumns, counted, createPaint, grouped, type Io, oneLine, writeJson } from "../io.ts";
import { loadHere, type Opened, withSessions } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { whileWaiting } from "../progress.ts";
import { shortId } from "../session-selector.ts";
import { receiptLines } from "./forget.ts";

interface PruneFlags {
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

/** Declares `rkat prune`. */
export function addPruneCommand(program: Command, invocation: Invocation): void {
  const flags = { limit: (limit: Option) => limit.argParser(wholeFrom(1)) };
  const prune = addFieldFlags(program.command("prune"), "prune", flags)
    .summary("forget the sessions that are kept no longer")
    .description(
      "Forgets the sessions of this folder that [retention] of the configuration keeps no longer, the oldest first, and " +
        "shows one signed receipt. It asks first; what is forgotten does not come back.",
    )
    .option("-y, --yes", "do not ask")
    .option("--json", "as JSON")
    .action((flags: PruneFlags) =>
      withSessions(invocation, (opened) => pruneAndShow(invocation.io, opened, flags)).catch(
        async (thrown: unknown) => {
          throw (await untrustedRetention(invocation, thrown)) ?? thrown;
        },
      ),
    );
  describeHelp(prune, {
    examples: [
      ["rkat prune --dry-run", "what would go, and why"],
      ["rkat prune --yes --limit 1000", "by night"],
    ],
    notes: [
      ["How long", '[retention] sessions = "90d", and by label [retention.labels] "team=core" = "30d" or "forever"'],
      ["Exit codes", "0 also when nothing is due · 2 nothing says how long sessions are kept · 14 not confirmed"],
    ],
  });
}

async function pruneAndShow(io: Io, { runtime }: Opened, flags: PruneFlags): Promise<void> {
  const { dryRun = false, yes = false, json = false } = flags;
  const asked = fieldsOf("prune", flags);
  const show = (told: PruneResult): void => (json ? writeJson(io, told) : showPruned(io, told));
  if (dryRun || !yes) {
    const preview = await whileWaiting(io, "looking for what is due", () =>
      runtime.dispatch("prune", { ...asked, dry_run: true }),
    );
    if (dryRun || preview.sessions.length === 0) return show(preview);
    await confirm(io, preview);
  }
  show(await whileWaiting(io, "forgetting", () => runtime.dispatch("prune", { ...asked, dry_run: false })));
}

/** Where the project's own retention is not trusted, that is what to do, and not to write another. */
async function untrustedRetention(invocation: Invocation, thrown: unknown): Promise<RuntimeError | undefined> {
  if (!(thrown instanceof RuntimeError) || !thrown.message.startsWith("retention: ")) return undefined;
  const leftOut = (await loadHere(invocation)).brought.filter(({ isObeyed }) => !isObeyed);
  const file = leftOut.find(({ requests }) => requests.some(({ name }) => name.startsWith("retention.")));
  const how = "counts once this project is trusted; run rkat trust, or add --trust for this run only";
  return file && new RuntimeError("INVALID_PARAMS", `[retention] of ${file.path} ${how}`);
}

/** Nothing goes before a person has said so. */
async function confirm(io: Io, preview: PruneResult): Promise<void> {
  if (!canAsk(io)) {
    throw new RuntimeError("INVALID_PARAMS", "--yes: nobody can be asked here; look with --dry-run, then write --yes");
  }
  showPruned({ ...io, stdout: io.stderr }, preview);
  const answer = await askLine(io, "Forget these sessions for good? Write yes: ");
  if (answer.trim().toLowerCase() !== "yes") throw new RuntimeError("REQUEST_CANCELLED", "nothing was forgotten");
}

const TITLE_CHARS = 60;

function showPruned(io: Pick<Io, "stdout" | "env">, told: PruneResult): void {
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
  io.stdout.write(`${[...lines, dim(`${sum}${more}${busy}`)].join("\n")}\n`);
}
