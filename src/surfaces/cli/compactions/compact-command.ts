import { type Command, Option } from "commander";
import { addFieldFlags } from "../field-flags.ts";
import { describeHelp, holdCommands } from "../help.ts";
import { type Opened, withCompaction } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { findSession, SELECTOR_HINT } from "../sessions/selector.ts";
import { expandCompaction, type UndoFlags, undoCompaction } from "./change-context.ts";
import { type CompactFlags, compactNow } from "./compact-now.ts";
import { listCompactions } from "./compaction-list.ts";
import { COMPACTION_HINT, type Named } from "./compaction-selector.ts";
import { type ShowCompactionFlags, showCompaction } from "./show-compaction.ts";

/** Declares `rkat compact`: everything about what was taken out of a context, and how it comes back. */
export function addCompactCommand(program: Command, invocation: Invocation): void {
  const compact = holdCommands(program.command("compact"))
    .summary("summarise a context, see what that lost, undo it")
    .description(
      "Makes a session's context smaller: older turns become a summary. Nothing is deleted; each compaction has a " +
        "receipt of what it took out, and can be undone.",
    );
  addRun(compact, invocation);
  addReads(compact, invocation);
  addChanges(compact, invocation);
  describeHelp(compact, {
    examples: [
      ["rkat compact run last --preview", "what would go, and what it would cost"],
      ["rkat compact run last", "do it"],
      ["rkat compact show last", "the summary, and where every specific is now"],
      ["rkat compact undo last", "as if it had not been"],
    ],
    notes: NOTES,
  });
}

const NOTES = [
  ["A session is named by", SELECTOR_HINT],
  ["A compaction is named by", COMPACTION_HINT],
] as const;

const json = (): Option => new Option("--json", "as JSON");

function addRun(parent: Command, invocation: Invocation): void {
  const run = parent
    .command("run")
    .summary("compact a session now")
    .description("Compacts a session now, whatever its size; the recent turns and what is pinned stay as they are.")
    .argument("<session>")
    .usage("SESSION [options]");
  addFieldFlags(run, "compactSession")
    .option("--all", "with --preview: list every specific")
    .addOption(json())
    .action((session: string, flags: CompactFlags) =>
      onSession(invocation, session, (opened, id) => compactNow(invocation, opened, { id, ...flags })),
    );
  describeHelp(run, {
    examples: [
      ["rkat compact run last", "the recent turns stay word for word"],
      ["rkat compact run last --preview", "nothing is changed, no model is asked"],
      ['rkat compact run ~1 --instructions "keep every port"', "tell who summarises what matters"],
    ],
    notes: [["Exit codes", "0 done, or nothing to do · 10 no such session · 11 it runs a turn · 30 it failed"]],
  });
}

function addReads(parent: Command, invocation: Invocation): void {
  const { io } = invocation;
  const list = parent
    .command("list")
    .summary("list a session's compactions")
    .description("Lists the compactions of a session, newest first.")
    .argument("<session>")
    .usage("SESSION [options]")
    .addOption(json())
    .action((session: string, flags: { readonly json?: boolean }) =>
      onSession(invocation, session, (opened, id) => listCompactions(io, opened, { id, ...flags })),
    );
  describeHelp(list, { examples: [["rkat compact list last", "when, why, how much smaller, what was lost"]] });
  const show = parent
    .command("show")
    .summary("show a compaction and its receipt")
    .description("Shows what a compaction did: its summary, and what became of every specific it took out.")
    .option("--all", "list every specific, not a few of each kind");
  onCompaction(show, invocation, (opened, named, flags: ShowCompactionFlags) =>
    showCompaction(io, opened, { ...named, ...flags }),
  );
  describeHelp(show, {
    examples: [
      ["rkat compact show last", "the newest compaction of the last session"],
      ["rkat compact show last ~1 --all", "the one before, with everything it took out"],
    ],
    notes: [["A compaction is named by", COMPACTION_HINT, "without a name it is the newest"]],
  });
}

function addChanges(parent: Command, invocation: Invocation): void {
  const { io } = invocation;
  const undo = parent
    .command("undo")
    .summary("bring back what a compaction took out")
    .description("Makes the context what it would be without a compaction and those built on it; later turns stay.");
  onCompaction(undo, invocation, (opened, named, flags: UndoFlags) =>
    undoCompaction(io, opened, { ...named, ...flags }),
  );
  describeHelp(undo, { examples: [["rkat compact undo last", "the newest that stands"]], notes: [STANDING] });
  const expand = parent
    .command("expand")
    .summary("bring back some turns")
    .description("Brings turns that a compaction took out back into the context, the newest first; its summary stays.");
  addFieldFlags(expand, "expandCompaction");
  onCompaction(expand, invocation, (opened, named, flags: UndoFlags) =>
    expandCompaction(io, opened, { ...named, ...flags }),
  );
  describeHelp(expand, {
    examples: [
      ["rkat compact expand last", "as much as there is room for"],
      ["rkat compact expand last --from 12 --to 20", "the turns of these seqs, as in session show --history"],
    ],
    notes: [STANDING],
  });
}

const STANDING = ["A compaction is named by", COMPACTION_HINT, "without a name it is the newest that stands"] as const;

function onSession(
  invocation: Invocation,
  session: string,
  act: (opened: Opened, id: string) => Promise<void>,
): Promise<void> {
  return withCompaction(invocation, async (opened) => act(opened, await findSession(opened, session)));
}

function onCompaction<F>(
  command: Command,
  invocation: Invocation,
  act: (opened: Opened, named: Named, flags: F) => Promise<void>,
): void {
  command
    .argument("<session>")
    .argument("[compaction]")
    .usage("SESSION [COMPACTION] [options]")
    .addOption(json())
    .action((session: string, word: string | undefined, flags: F) =>
      onSession(invocation, session, (opened, id) => act(opened, { id, word }, flags)),
    );
}
