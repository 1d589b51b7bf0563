import { Argument, type Command, Option } from "commander";
import { RuntimeError } from "../../../contract/error.ts";
import { addFieldFlags, json, jsonFlag, wholeFrom, withoutIt } from "../flags.ts";
import { describeHelp, holdCommands } from "../help.ts";
import { type Opened, withCompaction, withSessions } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { findSession, SELECTOR_NOTE } from "../session-selector.ts";
import { addApprovals } from "./approvals.ts";
import {
  type ChangeFlags,
  deleteSession,
  forkSession,
  injectText,
  interruptSession,
  listPins,
  pinMessage,
  sendEvent,
  unpinMessage,
} from "./change-session.ts";
import { addExport } from "./export-session.ts";
import { addImport } from "./import-session.ts";
import { addRewrites } from "./rewrite-session.ts";
import { type PageFlags, writeSessionPage } from "./session-file.ts";
import { addSessionTree } from "./session-tree.ts";
import {
  type CallsFlags,
  type ContextFlags,
  type EventsFlags,
  type ListFlags,
  type ShowFlags,
  showCalls,
  showContext,
  showEvents,
  showList,
  showSession,
} from "./session-views.ts";

/** Declares `rkat session` with everything one can ask of sessions besides a turn. */
export function addSessionCommand(program: Command, invocation: Invocation): void {
  const session = holdCommands(program.command("session"))
    .alias("sessions")
    .summary("list, show, fork, rewrite, pin, export, import and archive sessions")
    .description("Looks at the sessions of this folder and changes them; rkat sessions is the same.");
  addReads(session, invocation);
  addSessionTree(session, invocation);
  addChanges(session, invocation);
  addPins(session, invocation);
  addApprovals(session, invocation);
  addRewrites(session, invocation);
  addExport(session, invocation);
  addImport(session, invocation);
  describeHelp(session, {
    examples: [
      ["rkat session list", "which there are, newest first"],
      ["rkat session show last --history", "what was said"],
      ["rkat session fork last --at 3", "another way on from there"],
      ["rkat session pin last 12", "keep a message through every compaction"],
    ],
    notes: [SELECTOR_NOTE],
  });
}

function addReads(parent: Command, invocation: Invocation): void {
  const list = parent
    .command("list")
    .summary("list sessions, newest first")
    .description("Lists sessions, the one that changed last first; archived ones are left out.");
  addFieldFlags(list, "listSessions", { limit: withoutIt(20) })
    .option("--cost", "and what each has cost; as JSON that is told anyway")
    .addOption(jsonFlag())
    .action((flags: ListFlags) => withSessions(invocation, (opened) => showList(invocation, opened, flags)));
  describeHelp(list, {
    examples: [
      ["rkat session list", "the newest 20"],
      ["rkat session list --limit 5 --label team=core", "by label"],
      ["rkat session list --cursor CURSOR", "those after an earlier list, which says the cursor"],
      ["rkat session list --cost", "what each has cost, where the price of its model is known"],
      ["rkat session list --json | jq -r '.sessions[].session_id'", "for scripts"],
    ],
  });
  const show = parent
    .command("show")
    .summary("show a session and how far it got")
    .description("Shows what a session is and how far it got.")
    .option("--history", "and everything that was said")
    .addOption(new Option("--html <file>", "instead, write it as one page that any browser shows").conflicts("history"))
    .option("-f, --force", "with --html, overwrite the file that is there")
    .addOption(jsonFlag());
  onAnySession(show, invocation, async (opened, id, flags: ShowFlags | PageFlags) => {
    if ("html" in flags) return writeSessionPage(invocation, opened, { id, ...flags });
    if ("force" in flags) throw new RuntimeError("INVALID_PARAMS", "--force: it is about the file of --html; name one");
    return showSession(invocation, opened, { id, ...flags });
  });
  describeHelp(show, {
    examples: [
      ["rkat session show last", "model, tokens, state, labels"],
      ["rkat session show ~1 --history", "what was said, each message with its index and seq"],
      ["rkat session show last --html last.html", "the session as the console shows it, in a file to read or pass on"],
    ],
    notes: [SELECTOR_NOTE],
  });
  const context = parent
    .command("context")
    .summary("show what the model is shown")
    .description("Shows what the model is shown now, or was shown at an earlier call.");
  addFieldFlags(context, "readContext")
    .option("--calls", "instead, a bar for each of the newest model calls, as rkat session calls")
    .addOption(jsonFlag());
  onAnySession(context, invocation, (opened, id, flags: ContextFlags) =>
    showContext(invocation, opened, { id, ...flags }),
  );
  describeHelp(context, {
    examples: [
      ["rkat session context last", "as its next call will see it, after compactions"],
      ["rkat session context last --at 42", "as the model call at seq 42 saw it"],
      ["rkat session context last --calls", "how it grew and was compacted"],
    ],
    notes: [SELECTOR_NOTE],
  });
  const calls = parent
    .command("calls")
    .summary("show what filled the context of each model call")
    .description("Shows the newest model calls, oldest first, with what filled the context of each, and compactions.");
  addFieldFlags(calls, "listModelCalls").addOption(jsonFlag());
  onAnySession(calls, invocation, (opened, id, flags: CallsFlags) => showCalls(invocation, opened, { id, ...flags }));
  describeHelp(calls, {
    examples: [
      ["rkat session calls last", "a bar a call, against the threshold"],
      ["rkat session calls last --json | jq '.calls[].usage.input_tokens'", "for scripts"],
    ],
    notes: [SELECTOR_NOTE],
  });
  const events = parent
    .command("events")
    .summary("tell what happened, an event a line")
    .description("Tells what happened in a session, an event a line.");
  addFieldFlags(events, "listEvents", { sequence: withoutIt(0) })
    .option("-f, --follow", "go on as more happens, in any process, until Ctrl-C")
    .addOption(new Option("--json", "one JSON event a line"));
  onAnySession(events, invocation, (opened, id, flags: EventsFlags) =>
    showEvents(invocation, opened, { id, ...flags }),
  );
  describeHelp(events, {
    examples: [
      ["rkat session events last --follow", "watch it from another terminal"],
      ["rkat session events last --json | jq -r .type", "for scripts"],
    ],
    notes: [SELECTOR_NOTE],
  });
}

function addChanges(parent: Command, invocation: Invocation): void {
  const remove = parent
    .command("delete")
    .summary("archive a session")
    .description("Archives a session: it leaves the list and runs no more turns; by its whole id it can still be read.")
    .addOption(jsonFlag());
  onSession(remove, invocation, (opened, id, flags: ChangeFlags) =>
    deleteSession(invocation, opened, { id, ...flags }),
  );
  describeHelp(remove, { examples: [["rkat session delete ~1", "the one before the last"]], notes: [SELECTOR_NOTE] });
  const interrupt = parent
    .command("interrupt")
    .summary("stop the turn a session is running")
    .description("Stops the turn a session is running, in whichever process; what was said is kept.")
    .addOption(jsonFlag());
  onSession(interrupt, invocation, (opened, id, flags: ChangeFlags) =>
    interruptSession(invocation, opened, { id, ...flags }),
  );
  describeHelp(interrupt, {
    examples: [["rkat session interrupt last", "from another terminal than the turn's"]],
    notes: [SELECTOR_NOTE, ["Exit codes", "0 also when there is nothing to stop · 10 no such session"]],
  });
  const fork = parent
    .command("fork")
    .summary("begin another session with its messages")
    .description("Makes a new session of the messages before an index; without one, of all of them.");
  addFieldFlags(fork, "forkReplacing").addOption(jsonFlag());
  onSession(fork, invocation, (opened, id, flags: ChangeFlags) => forkSession(invocation, opened, { id, ...flags }));
  describeHelp(fork, {
    examples: [
      ["rkat session fork last", "a copy to go on with"],
      ["rkat session fork last --at 3", "of its first three messages"],
      [
        'rkat session fork last --at 3 --replacement \'{"type": "message", "message": {"role": "user", "content": "Hi."}}\'',
        "of its first three messages and another fourth",
      ],
    ],
    notes: [SELECTOR_NOTE],
  });
  addInject(parent, invocation);
}

function addInject(parent: Command, invocation: Invocation): void {
  const inject = parent
    .command("inject")
    .summary("add a text that the model is shown")
    .description("Adds a text that the model is shown from its next call on.")
    .argument("<session>")
    .argument("<text...>")
    .usage("SESSION TEXT… [options]")
    .addOption(jsonFlag())
    .action((word: string, words: readonly string[], flags: ChangeFlags) =>
      withSessions(invocation, async (opened) => {
        const id = await findSession(opened, word);
        return injectText(invocation, opened, { id, text: words.join(" "), ...flags });
      }),
    );
  describeHelp(inject, {
    examples: [['rkat session inject last "The build is green again."', "no turn is run"]],
    notes: [SELECTOR_NOTE],
  });
  const event = parent
    .command("event")
    .summary("tell a session of an event from outside")
    .description("Tells a session of an event from outside: data that the model is shown from its next call on.")
    .argument("<session>")
    .argument("<type>")
    .addArgument(new Argument("[payload]", "any JSON").argParser(json))
    .usage("SESSION TYPE [JSON] [options]")
    .addOption(jsonFlag())
    .action((word: string, type: string, payload: unknown, flags: ChangeFlags) =>
      withSessions(invocation, async (opened) =>
        sendEvent(invocation, opened, { id: await findSession(opened, word), type, payload, ...flags }),
      ),
    );
  describeHelp(event, {
    examples: [["rkat session event last build.finished '{\"green\": true}'", "no turn is run"]],
    notes: [SELECTOR_NOTE],
  });
}

function addPins(parent: Command, invocation: Invocation): void {
  const declare = (command: Command, change: typeof pinMessage): Command =>
    command
      .argument("<session>")
      .addArgument(new Argument("<seq>", "as in show --history").argParser(wholeFrom(1)))
      .usage("SESSION SEQ [options]")
      .addOption(jsonFlag())
      .action((word: string, seq: number, flags: ChangeFlags) =>
        withCompaction(invocation, async (opened) =>
          change(invocation, opened, { id: await findSession(opened, word), seq, ...flags }),
        ),
      );
  const pin = parent
    .command("pin")
    .summary("keep a message through every compaction")
    .description("Pins a message: every compaction keeps it in the context; one that was taken out comes back.");
  const unpin = parent
    .command("unpin")
    .summary("take a message's pin away")
    .description("Takes a message's pin away; it stays in the context until the next compaction.");
  const pins = parent
    .command("pins")
    .summary("list what is pinned")
    .description("Lists the seqs of a session's pinned messages.")
    .addOption(jsonFlag());
  onAnySession<ChangeFlags>(pins, invocation, (opened, id, flags) => listPins(invocation, opened, { id, ...flags }));
  describeHelp(pins, { examples: [["rkat session pins last", "what every compaction keeps"]] });
  describeHelp(declare(pin, pinMessage), {
    examples: [["rkat session pin last 12", "the message at seq 12, as in show --history"]],
  });
  describeHelp(declare(unpin, unpinMessage), {
    examples: [["rkat session unpin last 12", "compactions may take it out again"]],
  });
}

type Act<F> = (opened: Opened, id: string, flags: F) => Promise<void>;

/** Of a session that must be named. */
function onSession<F>(command: Command, invocation: Invocation, act: Act<F>): void {
  command.argument("<session>").usage("SESSION [options]").action(acting(invocation, act));
}

/** Who only looks mostly means the last. */
function onAnySession<F>(command: Command, invocation: Invocation, act: Act<F>): void {
  command.argument("[session]").usage("[SESSION] [options]").action(acting(invocation, act));
}

function acting<F>(invocation: Invocation, act: Act<F>) {
  return (word: string | undefined, flags: F) =>
    withSessions(invocation, async (opened) => act(opened, await findSession(opened, word ?? "last"), flags));
}
