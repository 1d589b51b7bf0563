import { invalid } from "@rkat/core/contract/error";
import type { Approval } from "@rkat/core/contract/session-operations";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { formatSessionRef } from "@rkat/server/http/events";
import { Option } from "commander";
import { showCalls } from "../chat/ask-person.ts";
import { callBars, contextBar } from "../chat/context-strip.ts";
import {
  type CommandRow,
  command,
  type OpenedCall,
  onSession,
  operation,
  print,
  show,
  withId,
  withRef,
} from "../command-row.ts";
import { also, fieldOptions, fieldsOf, jsonFlag, withoutIt } from "../flags.ts";
import { counted, oneLine, writeJson } from "../io.ts";
import { type PageFlags, writeSessionPage } from "../session-page.ts";
import { SELECTOR_NOTE, shortId } from "../session-selector.ts";
import { importRow } from "../transfer/session-import.ts";
import { exportRow } from "../transfer/session-transfer.ts";
import {
  type EventsFlags,
  goalText,
  kindIn,
  messageText,
  printEvents,
  type ShowFlags,
  sessionTable,
  showSession,
  transcriptLines,
  treeRow,
} from "./session-views.ts";

const REASON = withoutIt("edit");
const MESSAGE_CHARS_MAX = 100;

const contextRow = operation("session context [SESSION]", "readContext", {
  flags: () => [new Option("--calls", "instead, one bar for each of the newest model calls, as rkat session calls")],
  examples: [
    ["rkat session context last", "what the next call will send, after compactions"],
    ["rkat session context last --at 42", "what the model call at seq 42 sent"],
    ["rkat session context last --calls", "how it grew and was compacted"],
  ],
  view: (context, { io, paint }) => {
    const shown = context.messages.map((message) => ({ ...message, part: kindIn(context, message.seq) }));
    const { messages, estimated_tokens, sha256 } = context;
    const size = `${counted(messages.length, "message")}, about ${counted(estimated_tokens, "token")}`;
    return [...transcriptLines(shown, paint), ...contextBar(context, io), paint.dim(`${size}, sha256 ${sha256}`)];
  },
});

const callsRow = operation("session calls [SESSION]", "listModelCalls", {
  examples: [
    ["rkat session calls last", "one bar per call, against the threshold"],
    ["rkat session calls last --json | jq '.calls[].usage.input_tokens'", "for scripts"],
  ],
  view: (answer, { io, paint, id }) => {
    if (answer.calls.length === 0) return "No model was called.";
    const { next_before_seq: before } = answer;
    const older = paint.dim(`Older ones: rkat session calls ${shortId(id)} --before ${before}`);
    return [...callBars(answer, io), ...(before === undefined ? [] : [older])];
  },
});

export const sessionRows: readonly CommandRow[] = [
  command("session", {
    text: "List, show, fork, edit, pin, export, import and archive sessions; rkat sessions is the same.",
    also: ["sessions"],
    notes: [SELECTOR_NOTE],
  }),
  operation<"listSessions", { readonly json?: boolean; readonly cost?: boolean }>("session list", "listSessions", {
    own: { limit: withoutIt(20) },
    flags: () => [new Option("--cost", "show what each session has cost; --json always has it")],
    examples: [
      ["rkat session list", "the newest 20"],
      ["rkat session list --limit 5 --label team=core", "by label"],
      ["rkat session list --cursor CURSOR", "the next page; the page before shows the cursor"],
      ["rkat session list --cost", "with costs, where the price of the model is known"],
      ["rkat session list --json | jq -r '.sessions[].session_id'", "for scripts"],
    ],
    json: ({ sessions, ...rest }, { opened }) => ({
      sessions: sessions.map((one) => ({ ...one, session_ref: formatSessionRef(opened.place.realm, one.session_id) })),
      ...rest,
    }),
    view: (page, { io, flags }) => sessionTable(io, page, flags.cost === true),
  }),
  command("session show [SESSION]", {
    text: "Show a session: its model, state, tokens, labels and last answer.",
    flags: () => [
      new Option("--history", "and the whole conversation"),
      new Option("--html <file>", "instead, write it as one page that any browser shows").conflicts("history"),
      new Option("-f, --force", "with --html: overwrite the file"),
      jsonFlag(),
    ],
    examples: [
      ["rkat session show last", "model, tokens, state, labels"],
      ["rkat session show ~1 --history", "the conversation, each message with its index and seq"],
      ["rkat session show last --html last.html", "the session as the console shows it, in one file"],
    ],
    run: onSession<ShowFlags & Partial<PageFlags>>(async (call) => {
      const { html, force } = call.flags;
      if (html !== undefined) return writeSessionPage(call, { ...call.flags, html });
      if (force) throw invalid("--force: it is about the file of --html; name one");
      return showSession(call, call.flags);
    }),
  }),
  { ...contextRow, run: (call) => (call.self.opts().calls ? callsRow : contextRow).run?.(call) },
  callsRow,
  command("session events [SESSION]", {
    text: "Print what happened, one line per event.",
    flags: () => [
      ...fieldOptions("listEvents", { sequence: withoutIt(0) }),
      new Option("-f, --follow", "wait for further events, of any process, until Ctrl-C"),
      new Option("--json", "one JSON event per line"),
    ],
    examples: [
      ["rkat session events last --follow", "watch a session from another terminal"],
      ["rkat session events last --json | jq -r .type", "for scripts"],
    ],
    run: onSession<EventsFlags>(printEvents),
  }),
  treeRow,
  operation("session delete SESSION", "archiveSession", {
    examples: [["rkat session delete ~1", "the one before the last"]],
    json: withId,
    view: (_, { id }) => `Archived ${id}; rkat session show ${id} still reads it.`,
  }),
  command("session interrupt SESSION", {
    text: "Stop the turn a session is running, in any process; its text so far is kept.",
    flags: () => [jsonFlag()],
    examples: [["rkat session interrupt last", "from another terminal"]],
    notes: [["Exit codes", "0 also when there is nothing to stop · 10 no such session"]],
    run: onSession(async (call) => {
      const { id, opened } = call;
      const { state } = await opened.runtime.dispatch("readSession", { session_id: id });
      const answer = await opened.runtime.dispatch("interruptTurn", { session_id: id });
      show(call, withId(answer, call), () =>
        state === "running" ? `Asked ${shortId(id)} to stop.` : `${shortId(id)} is not running a turn.`,
      );
    }),
  }),
  command("session fork SESSION", {
    text: "Start a new session with the messages before an index; without one, with all of them.",
    flags: () => [...fieldOptions("forkReplacing"), jsonFlag()],
    examples: [
      ["rkat session fork last", "a copy to continue"],
      ["rkat session fork last --at 3", "of its first three messages"],
      [
        'rkat session fork last --at 3 --replacement \'{"type": "message", "message": {"role": "user", "content": "Hi."}}\'',
        "of its first three messages and another fourth",
      ],
    ],
    run: onSession(forkSession),
  }),
  operation("session inbox [SESSION]", "readInbox", {
    examples: [["rkat session inbox last", "what runs after the turn that is running, the next message first"]],
    view: ({ messages }) => {
      if (messages.length === 0) return "No messages wait.";
      return messages.map(
        ({ message_id, when_busy, source, text }) =>
          `${message_id}  ${when_busy}  ${source.type}  ${oneLine(text, MESSAGE_CHARS_MAX)}`,
      );
    },
  }),
  operation("session unqueue SESSION MESSAGE", "removeInboxMessage", {
    examples: [["rkat session unqueue last 0199…", "the message, by its id as in rkat session inbox"]],
    json: withId,
    view: (_, { id }) => `Removed from the inbox of ${shortId(id)}.`,
  }),
  operation("session jobs [SESSION]", "listJobs", {
    examples: [["rkat session jobs last", "what its tools started in the background, the oldest first"]],
    view: ({ jobs }) => {
      if (jobs.length === 0) return "No commands were started in the background.";
      return jobs.map(({ job_id, status, command }) => `${job_id}  ${status}  ${oneLine(command, MESSAGE_CHARS_MAX)}`);
    },
  }),
  operation("session cancel-job SESSION JOB", "cancelJob", {
    examples: [["rkat session cancel-job last 0199…", "the job, by its id as in rkat session jobs"]],
    json: withId,
    view: (_, { id }) => `Cancelled a job of ${shortId(id)}.`,
  }),
  operation("session end-goal SESSION", "endGoal", {
    examples: [["rkat session end-goal last", "a turn that runs is finished, and no further one begins"]],
    json: withId,
    view: ({ goal }) => `Goal ${goalText(goal)}.`,
  }),
  operation("session inject SESSION TEXT…", "injectContext", {
    examples: [['rkat session inject last "The build is green again."', "runs no turn"]],
    json: withId,
    view: (_, { id }) => `Added to ${shortId(id)}; the model sees it at its next call.`,
  }),
  operation("session event SESSION TYPE [JSON]", "sendExternalEvent", {
    text: "Send an external event to a session: data that the model sees from its next call on.",
    examples: [["rkat session event last build.finished '{\"green\": true}'", "runs no turn"]],
    json: withId,
    view: (_, { id }) => `Sent to ${shortId(id)}; the model sees it at its next call.`,
  }),
  operation("session add-server SESSION CONFIG", "addMcpServer", {
    examples: [
      [`rkat session add-server last '{"name": "docs", "url": "https://example.com/mcp"}'`, "this session alone"],
    ],
    view: ({ server_name }, { id }) => `Added ${server_name}; ${shortId(id)} has its tools from its next turn on.`,
  }),
  operation("session remove-server SESSION SERVER", "removeMcpServer", {
    examples: [["rkat session remove-server last docs", "this session alone"]],
    view: ({ server_name }, { id }) =>
      `Removed ${server_name}; ${shortId(id)} has no tools of it from its next turn on.`,
  }),
  operation("session reload-servers SESSION [SERVER]", "reloadMcpServers", {
    examples: [["rkat session reload-servers last", "all of them"]],
    view: ({ server_name }, { id }) =>
      `${shortId(id)} connects again to ${server_name ?? "its servers"} before its next turn.`,
  }),
  operation("session pin SESSION SEQ", "pinMessage", {
    examples: [["rkat session pin last 12", "the message at seq 12, as in show --history"]],
    view: async ({ pins }, call) => [`Pinned ${await messageLine(call)}`, pinsLine(pins)],
  }),
  operation("session unpin SESSION SEQ", "unpinMessage", {
    examples: [["rkat session unpin last 12", "compactions may remove it again"]],
    view: async ({ pins }, call) => [`No longer pinned: ${await messageLine(call)}`, pinsLine(pins)],
  }),
  operation("session pins [SESSION]", "listPins", {
    examples: [["rkat session pins last", "what every compaction keeps"]],
    view: ({ pins }) => pinsLine(pins),
  }),
  operation("session approvals [SESSION]", "listApprovals", {
    text: "List the tool calls that wait for approval, of one session or of all, oldest first.",
    ofEvery: true,
    examples: [["rkat session approvals", "of every session"]],
    view: ({ approvals }, call) => {
      if (approvals.length === 0) return "No tool calls are waiting for approval.";
      for (const approval of approvals) showApproval(call, approval);
      return undefined;
    },
  }),
  answerRow("approve SESSION", "allow", "Run a tool call that waits for approval", [
    ["rkat session approve last", "once"],
    ["rkat session approve last --for session", "also calls like it, for the rest of the session"],
  ]),
  answerRow("deny SESSION", "deny", "Refuse a tool call that waits for approval", [
    ['rkat session deny last --reason "use the staging server"', "the model is given the reason"],
  ]),
  {
    ...answerRow("answer SESSION DECISION", undefined, "Answer a tool call that waits for approval", []),
    isHidden: true,
  },
  operation<"rewriteTranscript", { readonly json?: boolean; readonly from: number; readonly to?: number }>(
    "session rewrite SESSION",
    "rewriteTranscript",
    {
      text: "Replace some messages by others; the old ones stay in the log and can be restored.",
      usage: "SESSION --from N [options]",
      own: {
        start: (from) => from.makeOptionMandatory(),
        end: (to) => also(to, "without it, one is replaced"),
        replacement: (messages) => also(messages, "nothing without it").default([], "[]"),
        kind: REASON,
      },
      examples: [
        ["rkat session rewrite last --from 4 --to 8", "remove four messages"],
        [
          'rkat session rewrite last --from 1 --messages \'[{"role": "user", "content": "Hi."}]\'',
          "replace one message",
        ],
      ],
      notes: [["A message is", "written as show --history --json shows it; seq and created_at may be left out"]],
      input: ({ flags: { from, to = from + 1 } }) => ({ selection: { type: "message_range", start: from, end: to } }),
      json: withRef,
      view: rewriteLines,
    },
  ),
  operation("session restore SESSION REVISION", "restoreRevision", {
    own: { kind: REASON },
    examples: [["rkat session restore last sha256:…", "undo a rewrite, or return to an earlier turn"]],
    json: withRef,
    view: rewriteLines,
  }),
  operation("session rewrites SESSION", "listRewrites", {
    examples: [["rkat session rewrites last", "what can be restored"]],
    json: withRef,
    view: ({ commits, head_revision }, { paint }) => [
      ...commits.flatMap(({ reason, actor, committed_at, selection, ...commit }) => {
        const when = new Date(committed_at.secs_since_epoch * 1_000).toISOString();
        const who = actor === undefined ? "" : ` by ${withoutControls(actor)}`;
        const note = reason.note === undefined ? "" : `: ${withoutControls(reason.note)}`;
        const range = `messages ${selection.start} to ${selection.end}`;
        return [
          `${paint.bold(withoutControls(reason.kind))}${note}${who}, ${when}`,
          `   ${range}, ${commit.messages_before} before and ${commit.messages_after} after`,
          `   from ${commit.parent_revision}\n   to   ${commit.revision}`,
        ];
      }),
      ...(commits.length === 0 ? ["It was never rewritten."] : []),
      paint.dim(`now ${head_revision}`),
    ],
  }),
  operation("session revision SESSION [REVISION]", "readRevision", {
    examples: [
      ["rkat session revision last", "the transcript now, with its revision"],
      ["rkat session revision last sha256:…", "the transcript at that revision"],
    ],
    input: ({ arg }) => ({ revision: arg("revision") ?? "current" }),
    json: withRef,
    view: ({ messages, revision, head_revision, message_count }, { paint }) => {
      const now = revision === head_revision ? "as it is now" : `now ${head_revision}`;
      const size = paint.dim(`${counted(message_count, "message")}, ${revision}, ${now}`);
      return [...transcriptLines(messages, paint), size];
    },
  }),
  exportRow,
  importRow,
];

interface ForkFlags {
  readonly at?: number;
  readonly replacement?: object;
  readonly json?: boolean;
}

async function forkSession(call: OpenedCall<ForkFlags>): Promise<void> {
  const { id: session_id, opened } = call;
  const { at, replacement } = call.flags;
  if (replacement !== undefined && at === undefined) {
    throw invalid("--replacement needs --at, the index of the message it replaces");
  }
  const { dispatch } = opened.runtime;
  const message_index = at ?? (await dispatch("readSession", { session_id })).message_count;
  const fork =
    replacement === undefined
      ? await dispatch("forkSession", { session_id, message_index })
      : await dispatch("forkReplacing", { session_id, message_index, replacement });
  show(call, withRef(fork, { ...call, id: fork.session_id }), () => [
    `Forked ${shortId(session_id)} at message ${fork.message_count}: ${fork.session_id}`,
    `Resume with: rkat resume ${shortId(fork.session_id)} PROMPT${opened.place.storeFlag}`,
  ]);
}

function pinsLine(pins: readonly number[]): string {
  if (pins.length === 0) return "Nothing is pinned.";
  return `Every compaction keeps the ${pins.length === 1 ? "seq" : "seqs"} ${pins.toSorted((a, b) => a - b).join(", ")}.`;
}

/** Shows the message, since a seq is easily mistyped. */
async function messageLine({ opened, id: session_id, arg }: OpenedCall): Promise<string> {
  const seq = arg("seq") ?? "";
  const { messages } = await opened.runtime.dispatch("readHistory", { session_id });
  const message = messages.find((one) => String(one.seq) === seq);
  return message === undefined ? `seq ${seq}` : `seq ${seq}, ${oneLine(messageText(message), MESSAGE_CHARS_MAX)}`;
}

interface Rewritten {
  readonly session_id: string;
  readonly message_count: number;
  readonly revision: string;
  readonly parent_revision: string;
}

function rewriteLines({ session_id, message_count, revision, parent_revision }: Rewritten): readonly string[] {
  return [
    `${shortId(session_id)} now has ${counted(message_count, "message")}: ${revision}`,
    `Undo with: rkat session restore ${shortId(session_id)} ${parent_revision}`,
  ];
}

function answerRow(
  line: string,
  decision: "allow" | "deny" | undefined,
  text: string,
  examples: NonNullable<CommandRow["examples"]>,
): CommandRow {
  return command(`session ${line}`, {
    text: `${text}; the turn continues here, and its end is shown.`,
    flags: () => [...fieldOptions("answerApproval"), jsonFlag()],
    examples,
    run: onSession((call) => answer(call, decision ?? call.arg("decision") ?? "")),
  });
}

async function answer(call: OpenedCall, decision: string): Promise<void> {
  const { io, opened, id: session_id, flags } = call;
  const [waiting] = await waitingIn(call);
  if (waiting === undefined) throw invalid(`${shortId(session_id)} has no tool call that waits for approval`);
  const given = { approval_id: waiting.approval_id, ...fieldsOf("answerApproval", flags), session_id, decision };
  let turn: Promise<unknown> | undefined;
  const answered = await opened.runtime.dispatch("answerApproval", given, {
    background: (going) => {
      turn = going;
    },
  });
  await turn;
  const { state, last_assistant_text = "" } = await opened.runtime.dispatch("readSession", { session_id });
  if (flags.json) return writeJson(io, { ...answered, state, text: last_assistant_text });
  const approvals = await waitingIn(call);
  for (const approval of approvals) showApproval(call, approval);
  if (approvals.length === 0) print(io, withoutControls(last_assistant_text));
}

async function waitingIn({ opened, id: session_id }: OpenedCall): Promise<readonly Approval[]> {
  return (await opened.runtime.dispatch("listApprovals", { session_id })).approvals;
}

function showApproval({ io, paint, opened }: OpenedCall, { session_id, calls, expires_at }: Approval): void {
  const id = shortId(session_id);
  print(io, `${id} ${paint.dim(`until ${expires_at}`)}`);
  showCalls(io, calls, io.stdout);
  const { storeFlag } = opened.place;
  print(io, paint.dim(`Answer with: rkat session approve ${id}${storeFlag}, or rkat session deny ${id}${storeFlag}`));
}
