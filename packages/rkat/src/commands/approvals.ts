import { RuntimeError } from "@rkat/core/contract/error";
import type { Approval } from "@rkat/core/contract/session-operations";
import { withoutControls } from "@rkat/server/http/terminal-text";
import { showCalls } from "../chat/ask-person.ts";
import { type CommandRow, command, type OpenedCall, onOpened, onSession, print } from "../command-row.ts";
import { fieldOptions, fieldsOf, jsonFlag } from "../flags.ts";
import { writeJson } from "../io.ts";
import { findSession, shortId } from "../session-selector.ts";

/** `rkat session approvals`, `approve` and `deny`. */
export const approvalRows: readonly CommandRow[] = [
  command("session approvals [SESSION]", {
    text: "List the tool calls that wait for approval, of one session or of all, oldest first.",
    flags: () => [jsonFlag()],
    examples: [["rkat session approvals", "of every session"]],
    run: onOpened(async (call) => {
      const word = call.arg("session");
      const approvals = await waitingIn(
        call,
        word === undefined ? {} : { session_id: await findSession(call.opened, word) },
      );
      if (call.flags.json) return writeJson(call.io, { approvals });
      if (approvals.length === 0) print(call.io, "No tool calls are waiting for approval.");
      for (const approval of approvals) showApproval(call, approval);
    }),
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
];

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
  const [waiting] = await waitingIn(call, { session_id });
  if (waiting === undefined) {
    throw new RuntimeError("INVALID_PARAMS", `${shortId(session_id)} has no tool call that waits for approval`);
  }
  const given = { approval_id: waiting.approval_id, ...fieldsOf("answerApproval", flags), session_id, decision };
  let turn: Promise<unknown> | undefined;
  const answered = await opened.runtime.dispatch("answerApproval", given, {
    background: (going) => {
      turn = going;
    },
  });
  await turn;
  const { state, last_assistant_text = "" } = await opened.runtime.readSession(session_id);
  if (flags.json) return writeJson(io, { ...answered, state, text: last_assistant_text });
  const approvals = await waitingIn(call, { session_id });
  for (const approval of approvals) showApproval(call, approval);
  if (approvals.length === 0) print(io, withoutControls(last_assistant_text));
}

async function waitingIn({ opened }: OpenedCall, of: { readonly session_id?: string }): Promise<readonly Approval[]> {
  return (await opened.runtime.dispatch("listApprovals", of)).approvals;
}

function showApproval({ io, paint }: OpenedCall, { session_id, calls, expires_at }: Approval): void {
  const id = shortId(session_id);
  print(io, `${id} ${paint.dim(`until ${expires_at}`)}`);
  showCalls(io, calls, io.stdout);
  print(io, paint.dim(`Answer with: rkat session approve ${id}, or rkat session deny ${id}`));
}
