import { Argument, type Command } from "commander";
import type { OperationOutput } from "../../../contract/operations.ts";
import { formatSessionRef } from "../../wire/events.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { addFieldFlags, also, fieldsOf, jsonFlag, withoutIt } from "../flags.ts";
import { describeHelp } from "../help.ts";
import { counted, createPaint, writeJson } from "../io.ts";
import { type Opened, withSessions } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { findSession, SELECTOR_NOTE, shortId } from "../session-selector.ts";
import { transcriptLines } from "./session-views.ts";

const REASON = withoutIt("edit");

/** Declares the commands that change what a transcript says, and look at what it said. */
export function addRewrites(parent: Command, invocation: Invocation): void {
  addRewrite(parent, invocation);
  addRestore(parent, invocation);
  addRevision(parent, invocation);
}

interface WhyFlags {
  readonly json?: boolean;
}

interface RewriteFlags extends WhyFlags {
  readonly from: number;
  readonly to?: number;
}

function addRewrite(parent: Command, invocation: Invocation): void {
  const rewrite = parent
    .command("rewrite")
    .summary("put other messages in the place of some")
    .description("Puts other messages in the place of some; what was there stays in the log and can be restored.")
    .argument("<session>")
    .usage("SESSION --from N [options]");
  addFieldFlags(rewrite, "rewriteTranscript", {
    start: (from) => from.makeOptionMandatory(),
    end: (to) => also(to, "without it, one is replaced"),
    replacement: (messages) => also(messages, "nothing without it").default([], "[]"),
    kind: REASON,
  })
    .addOption(jsonFlag())
    .action((word: string, flags: RewriteFlags) =>
      withSessions(invocation, async (opened) => {
        const session_id = await findSession(opened, word);
        const selection = { type: "message_range", start: flags.from, end: flags.to ?? flags.from + 1 };
        const input = { ...fieldsOf("rewriteTranscript", flags), session_id, selection };
        const answer = await opened.runtime.dispatch("rewriteTranscript", input);
        tellRewrite(invocation, { ...answer, ...refOf(opened, session_id) }, flags);
      }),
    );
  describeHelp(rewrite, {
    examples: [
      ["rkat session rewrite last --from 4 --to 8", "take four messages out"],
      [
        'rkat session rewrite last --from 1 --messages \'[{"role": "user", "content": "Hi."}]\'',
        "put another in the place of one",
      ],
    ],
    notes: [
      SELECTOR_NOTE,
      ["A message is", "written as show --history --json shows it; seq and created_at may be left out"],
    ],
  });
}

function addRestore(parent: Command, invocation: Invocation): void {
  const restore = parent
    .command("restore")
    .summary("make a transcript what it was at a revision")
    .description("Makes a transcript what it was at a revision; what was said since stays in the log.")
    .argument("<session>")
    .addArgument(new Argument("<revision>", "as session rewrites shows it"))
    .usage("SESSION REVISION [options]");
  addFieldFlags(restore, "restoreRevision", { kind: REASON })
    .addOption(jsonFlag())
    .action((word: string, revision: string, flags: WhyFlags) =>
      withSessions(invocation, async (opened) => {
        const session_id = await findSession(opened, word);
        const input = { ...fieldsOf("restoreRevision", flags), session_id, revision };
        const answer = await opened.runtime.dispatch("restoreRevision", input);
        tellRewrite(invocation, { ...answer, ...refOf(opened, session_id) }, flags);
      }),
    );
  describeHelp(restore, {
    examples: [["rkat session restore last sha256:…", "take a rewrite back, or go back to an earlier turn"]],
    notes: [SELECTOR_NOTE],
  });
}

function addRevision(parent: Command, invocation: Invocation): void {
  const rewrites = parent
    .command("rewrites")
    .summary("list how a transcript was rewritten")
    .description("Lists how a transcript was rewritten and restored, oldest first, with the revisions.")
    .argument("<session>")
    .usage("SESSION [options]")
    .addOption(jsonFlag())
    .action((word: string, flags: { readonly json?: boolean }) =>
      withSessions(invocation, async (opened) => {
        const session_id = await findSession(opened, word);
        const answer = await opened.runtime.dispatch("listRewrites", { session_id });
        if (flags.json) return writeJson(invocation.io, { ...answer, ...refOf(opened, session_id) });
        tellRewrites(invocation, answer);
      }),
    );
  describeHelp(rewrites, { examples: [["rkat session rewrites last", "what to restore"]], notes: [SELECTOR_NOTE] });
  const revision = parent
    .command("revision")
    .summary("show a transcript as it was at a revision")
    .description("Shows a transcript as it was at a revision; without one, as it is, with its revision.")
    .argument("<session>")
    .addArgument(new Argument("[revision]", "as session rewrites shows it").default("current"))
    .usage("SESSION [REVISION] [options]");
  addFieldFlags(revision, "readRevision")
    .addOption(jsonFlag())
    .action((word: string, named: string, flags: { readonly json?: boolean }) =>
      withSessions(invocation, async (opened) => {
        const session_id = await findSession(opened, word);
        const input = { ...fieldsOf("readRevision", flags), session_id, revision: named };
        const answer = await opened.runtime.dispatch("readRevision", input);
        if (flags.json) return writeJson(invocation.io, { ...answer, ...refOf(opened, session_id) });
        tellRevision(invocation, answer);
      }),
    );
  describeHelp(revision, {
    examples: [
      ["rkat session revision last", "what is said now, and the revision of it"],
      ["rkat session revision last sha256:…", "what was said then"],
    ],
    notes: [SELECTOR_NOTE],
  });
}

function refOf({ place }: Opened, sessionId: string): { readonly session_ref: string } {
  return { session_ref: formatSessionRef(place.realm, sessionId) };
}

function tellRewrite({ io }: Invocation, answer: OperationOutput<"rewriteTranscript">, flags: WhyFlags): void {
  if (flags.json) {
    writeJson(io, answer);
    return;
  }
  const { session_id, message_count, revision, parent_revision } = answer;
  io.stdout.write(`${shortId(session_id)} now says ${counted(message_count, "message")}: ${revision}\n`);
  io.stdout.write(`Take it back with: rkat session restore ${shortId(session_id)} ${parent_revision}\n`);
}

function tellRewrites({ io }: Invocation, { commits, head_revision }: OperationOutput<"listRewrites">): void {
  const paint = createPaint(io.stdout, io.env);
  for (const { reason, actor, committed_at, selection, ...commit } of commits) {
    const when = new Date(committed_at.secs_since_epoch * 1_000).toISOString();
    const who = actor === undefined ? "" : ` by ${withoutControls(actor)}`;
    const note = reason.note === undefined ? "" : `: ${withoutControls(reason.note)}`;
    io.stdout.write(`${paint.bold(withoutControls(reason.kind))}${note}${who}, ${when}\n`);
    const range = `messages ${selection.start} to ${selection.end}`;
    io.stdout.write(`   ${range}, ${commit.messages_before} before and ${commit.messages_after} after\n`);
    io.stdout.write(`   from ${commit.parent_revision}\n   to   ${commit.revision}\n`);
  }
  if (commits.length === 0) io.stdout.write("It was never rewritten.\n");
  io.stdout.write(`${paint.dim(`now ${head_revision}`)}\n`);
}

function tellRevision({ io }: Invocation, answer: OperationOutput<"readRevision">): void {
  const paint = createPaint(io.stdout, io.env);
  for (const line of transcriptLines(answer.messages, paint)) io.stdout.write(`${line}\n`);
  const { revision, head_revision, message_count } = answer;
  const now = revision === head_revision ? "as it is now" : `now ${head_revision}`;
  io.stdout.write(`${paint.dim(`${counted(message_count, "message")}, ${revision}, ${now}`)}\n`);
}
