import type { EntryBody, TurnEnd } from "../contract/entry.ts";
import type { TerminalCause, Usage } from "../contract/event.ts";
import type { AssistantBlock, StopReason, ToolUseBlock } from "../contract/message.ts";
import type { Clock } from "../ports/clock.ts";
import type { Extraction } from "./extraction.ts";
import type { ModelAnswer } from "./model-call.ts";
import { checkBudget, type Run, stillUnsaved, type Turn } from "./run.ts";
import { foldAhead, type SessionState } from "./session-state.ts";
import { closeCalls, interruptedIn } from "./tool-batch.ts";
import { CANCELLED, endOfFailure, outOfTime } from "./turn-end.ts";

/** How a turn went, for the caller that waits for it. */
export interface TurnOutcome {
  readonly end: TurnEnd;
  readonly text: string;
  readonly turns: number;
  readonly toolCalls: number;
  readonly extraction: Extraction;
  /** The calls it ended with, which whoever asked for it runs. */
  readonly pending?: readonly ToolUseBlock[];
}

/** What became of the calls of an answer: what is to be saved next, and those that whoever asked for the turn runs. */
export interface Served {
  readonly unsaved: EntryBody[];
  readonly pending: readonly ToolUseBlock[];
}

export type Failed = Extract<ModelAnswer, { ok: false }>;

export function assistantEntry(
  turn: Turn,
  blocks: readonly AssistantBlock[],
  how: { stopReason: StopReason; usage?: Usage },
): EntryBody {
  return {
    kind: "assistant",
    message: {
      role: "block_assistant",
      blocks: [...blocks],
      stop_reason: how.stopReason,
      created_at: timestamp(turn.clock),
    },
    ...(how.usage === undefined ? {} : { usage: how.usage }),
  };
}

/** A call that could not be answered: what it streamed is kept as a message marked `cancelled`. */
export async function closeFailed(run: Run, answer: Failed): Promise<TurnOutcome> {
  const { turn } = run;
  const unsaved: EntryBody[] =
    answer.text === ""
      ? []
      : [assistantEntry(turn, [{ block_type: "text", data: { text: answer.text } }], { stopReason: "cancelled" })];
  return close(run, unsaved, () => failureEnd(run, unsaved, answer));
}

function failureEnd(run: Run, unsaved: EntryBody[], answer: Failed): TurnEnd {
  switch (answer.because) {
    case "interrupted":
      return CANCELLED;
    case "out_of_time": {
      checkBudget(run, unsaved);
      const end = { ...completed(run, unsaved), cause: "time_budget_exceeded" as const };
      const hasResult = end.text_seq !== undefined || run.turn.state.toolCallsUsed > run.toolCallsBefore;
      return hasResult ? end : outOfTime(answer.failure);
    }
    case "failure":
      return endOfFailure(answer.failure, run.turn);
  }
}

/** A graceful end, counting what is still to be saved. */
export function completed(run: Run, unsaved: readonly EntryBody[]): Extract<TurnEnd, { status: "completed" }> {
  const ahead = foldAhead(run.turn.state, unsaved);
  const text = textInTurn(run, ahead);
  return {
    status: "completed",
    extraction_required: false,
    usage: ahead.usage,
    ...(text === undefined ? {} : { text_seq: text.seq }),
  };
}

/** Ends a turn whose calls are for whoever asked: it goes on when their results have come. */
export async function closePending(
  run: Run,
  { unsaved, pending }: Served,
  answer?: Extract<ModelAnswer, { ok: true }>,
): Promise<TurnOutcome> {
  const closed = await close(run, unsaved, () => ({
    ...completed(run, unsaved),
    ...(answer === undefined ? {} : { final_call: { stop_reason: answer.stopReason, usage: answer.usage } }),
    pending: pending.map(({ data }) => data.id),
  }));
  return { ...closed, pending };
}

/** Ends a turn that was interrupted: calls that nobody will run any more are answered. */
export function closeCancelled(run: Run, { unsaved, pending }: Served): Promise<TurnOutcome> {
  const { state, clock } = run.turn;
  if (pending.length === 0) return close(run, unsaved, () => CANCELLED);
  const { heldResults } = foldAhead(state, unsaved);
  const answered = closeCalls(state.openCalls, interruptedIn(state), clock, heldResults);
  return close(run, [...unsaved, answered], () => CANCELLED);
}

/** Ends a turn gracefully for a cause other than the model's own end. */
export function closeBy(run: Run, unsaved: readonly EntryBody[], cause: TerminalCause): Promise<TurnOutcome> {
  return close(run, unsaved, () => ({ ...completed(run, unsaved), cause }));
}

/** Saves the rest together with the end: one append, so a turn is never seen finished without its answer. */
export async function close(run: Run, unsaved: readonly EntryBody[], endOf: () => TurnEnd): Promise<TurnOutcome> {
  const { turn } = run;
  let end: TurnEnd = CANCELLED;
  await turn.append(() => {
    const { cost } = foldAhead(turn.state, unsaved).turnUsage;
    end = { ...endOf(), ...(cost === undefined ? {} : { turn_cost: cost }) };
    return [...stillUnsaved(run, unsaved), { kind: "turn_closed", end }];
  });
  return {
    end,
    text: textInTurn(run)?.text ?? "",
    turns: run.turns,
    toolCalls: turn.state.toolCallsUsed - run.toolCallsBefore,
    extraction: {},
  };
}

export function textInTurn(run: Run, state: Pick<SessionState, "lastText"> = run.turn.state): SessionState["lastText"] {
  const { lastText } = state;
  return lastText !== undefined && lastText.seq > run.seqBefore ? lastText : undefined;
}

export function timestamp(clock: Clock): string {
  return new Date(clock.now()).toISOString();
}
