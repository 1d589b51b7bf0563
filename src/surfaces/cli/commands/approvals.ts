import { Argument, type Command } from "commander";
import type { Approval } from "../../../contract/approval-operations.ts";
import { RuntimeError } from "../../../contract/error.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { showCalls } from "../ask-person.ts";
import { addFieldFlags, fieldsOf, jsonFlag } from "../flags.ts";
import { describeHelp } from "../help.ts";
import { createPaint, writeJson } from "../io.ts";
import { type Opened, withSessions } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { findSession, SELECTOR_NOTE, shortId } from "../session-selector.ts";

interface Flags {
  readonly json?: boolean;
  readonly approval?: string;
}

/** Declares `rkat session approvals` and `rkat session answer`. */
export function addApprovals(parent: Command, invocation: Invocation): void {
  const list = parent
    .command("approvals")
    .summary("show the tool calls that wait for a person's word")
    .description("Shows the tool calls that wait for a person's word, of one session or of all, oldest first.")
    .argument("[session]")
    .usage("[SESSION] [options]")
    .addOption(jsonFlag())
    .action((word: string | undefined, { json }: Flags) =>
      withSessions(invocation, async (opened) => {
        const approvals = await waitingIn(opened, word);
        if (json) return writeJson(invocation.io, { approvals });
        if (approvals.length === 0) invocation.io.stdout.write("No call waits for a word.\n");
        for (const approval of approvals) show(invocation, approval);
      }),
    );
  describeHelp(list, { examples: [["rkat session approvals", "of every session"]], notes: [SELECTOR_NOTE] });
  const answer = parent
    .command("answer")
    .summary("say whether tool calls that wait may run")
    .description(
      "Says whether the tool calls a session waits with may run; the turn goes on here, and its end is shown.",
    )
    .argument("<session>")
    .addArgument(new Argument("<decision>", "whether they may run").choices(["allow", "deny"]))
    .usage("SESSION allow|deny [options]");
  addFieldFlags(answer, "answerApproval", {})
    .addOption(jsonFlag())
    .action((word: string, decision: string, flags: Flags) =>
      withSessions(invocation, async (opened) => {
        const session_id = await findSession(opened, word);
        const [waiting] = await waitingIn(opened, session_id);
        if (waiting === undefined) {
          throw new RuntimeError("INVALID_PARAMS", `${shortId(session_id)} waits for no word`);
        }
        const { approval_id } = waiting;
        await giveWord(
          invocation,
          opened,
          { approval_id, ...fieldsOf("answerApproval", flags), session_id, decision },
          flags,
        );
      }),
    );
  describeHelp(answer, {
    examples: [
      ["rkat session answer last allow", "once"],
      ["rkat session answer last allow --for session", "and calls like it from now on"],
      ['rkat session answer last deny --reason "use the staging server"', "the model is told why"],
    ],
    notes: [SELECTOR_NOTE],
  });
}

async function waitingIn(opened: Opened, word: string | undefined): Promise<readonly Approval[]> {
  const session_id = word === undefined ? undefined : await findSession(opened, word);
  const { approvals } = await opened.runtime.dispatch("listApprovals", session_id === undefined ? {} : { session_id });
  return approvals;
}

function show({ io }: Invocation, { session_id, calls, expires_at }: Approval): void {
  const { dim } = createPaint(io.stdout, io.env);
  io.stdout.write(`${shortId(session_id)} ${dim(`until ${expires_at}`)}\n`);
  showCalls(io, calls, io.stdout);
  io.stdout.write(`${dim(`Answer with: rkat session answer ${shortId(session_id)} allow|deny`)}\n`);
}

async function giveWord(
  invocation: Invocation,
  { runtime }: Opened,
  word: { readonly session_id: string; readonly [field: string]: unknown },
  { json }: Flags,
): Promise<void> {
  const { io } = invocation;
  const { session_id } = word;
  let turn: Promise<unknown> | undefined;
  const answered = await runtime.dispatch("answerApproval", word, {
    behind: (going) => {
      turn = going;
    },
  });
  await turn;
  const { state, last_assistant_text = "" } = await runtime.readSession(session_id);
  if (json) return writeJson(io, { ...answered, state, text: last_assistant_text });
  const { approvals } = await runtime.dispatch("listApprovals", { session_id });
  for (const approval of approvals) show(invocation, approval);
  if (approvals.length === 0) io.stdout.write(`${withoutControls(last_assistant_text)}\n`);
}
