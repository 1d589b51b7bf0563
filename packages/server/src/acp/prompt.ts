import type { AgentContext, ContentBlock, PermissionOption, SessionUpdate, StopReason } from "@agentclientprotocol/sdk";
import { questionIn } from "@rkat/core/contract/describe-event";
import { asRuntimeError, RuntimeError } from "@rkat/core/contract/error";
import type { AgentEvent, AgentEventOf } from "@rkat/core/contract/event";
import { defined } from "@rkat/core/contract/json";
import type { AskedCall } from "@rkat/core/contract/permission";
import type { RunResult } from "@rkat/core/contract/session";
import type { Clock } from "@rkat/core/ports/clock";
import type { CallContext, Dispatch } from "@rkat/core/runtime/dispatch";
import type { Listener } from "@rkat/core/sessions/event-queue";
import { furtherTurn } from "../http/calls.ts";
import { sendTurnEvents } from "../http/events.ts";
import { createClientTools } from "./client-tools.ts";
import { contentOf } from "./prompt-content.ts";
import { overlayOf } from "./session-options.ts";
import { type OpenSession, type Sessions, type SessionsParts, serverNotices } from "./sessions.ts";
import { parseSlash, runSlash } from "./slash-commands.ts";
import { describeCall } from "./tool-calls.ts";
import { compactionUpdates, notice, textBlock, type UpdateContext, updatesOf, usageUpdate } from "./updates.ts";

export interface PromptParts extends Pick<SessionsParts, "send" | "client"> {
  readonly sessions: Pick<Sessions, "updateContext">;
  readonly clock: Clock;
}

interface Prompted {
  readonly session: OpenSession;
  readonly client: AgentContext;
  readonly blocks: readonly ContentBlock[];
  readonly signal: AbortSignal;
}

/** Runs a prompt to its end: a command, or a turn. Every update of it has been sent when this resolves. */
export async function runPrompt(parts: PromptParts, prompted: Prompted): Promise<StopReason> {
  const { session, client, blocks } = prompted;
  const cancelling = new AbortController();
  const signal = AbortSignal.any([prompted.signal, cancelling.signal]);
  const leaving = new AbortController();
  session.running.add(cancelling);
  const cancel = (): void => cancelling.abort("cancelled");
  const turn: Turn = { session, client, signal, leaving: leaving.signal, wasAsked: false, cancel };
  const stop = (): void => {
    // A turn that waits for approval outlives its client, so it is interrupted and its end is awaited.
    if (!turn.wasAsked) leaving.abort("cancelled");
    else
      session.folder.runtime
        .dispatch("interruptTurn", { session_id: session.id })
        .catch(() => leaving.abort("cancelled"));
  };
  signal.addEventListener("abort", stop, { once: true });
  try {
    await session.interrupted;
    const [block] = blocks;
    const slash = blocks.length === 1 && block?.type === "text" ? parseSlash(block.text) : undefined;
    const stopped = slash === undefined ? await runTurn(parts, turn, blocks) : await runCommand(parts, turn, slash);
    // Text that arrived before the cancel is kept, and the cancel still counts.
    return signal.aborted ? "cancelled" : stopped;
  } catch (thrown) {
    if (!signal.aborted || asRuntimeError(thrown).code !== "REQUEST_CANCELLED") throw thrown;
    return "cancelled";
  } finally {
    signal.removeEventListener("abort", stop);
    session.running.delete(cancelling);
  }
}

interface Turn extends Omit<Prompted, "blocks"> {
  /** Aborts when what runs is left to end by itself. */
  readonly leaving: AbortSignal;
  wasAsked: boolean;
  cancel(): void;
}

async function runCommand(parts: PromptParts, turn: Turn, slash: { name: string; rest: string }): Promise<StopReason> {
  const { session, client, leaving } = turn;
  const following = await followTurn(parts, turn);
  try {
    const call = { signal: leaving, listener: following.listener };
    const said = await runSlash({ dispatch: session.folder.runtime.dispatch, sessionId: session.id, call }, slash);
    await following.finish();
    await parts.send(client, session.id, [{ sessionUpdate: "agent_message_chunk", content: textBlock(said) }]);
    return "end_turn";
  } finally {
    await following.finish();
  }
}

async function runTurn(parts: PromptParts, turn: Turn, blocks: readonly ContentBlock[]): Promise<StopReason> {
  const { session, client, signal, leaving } = turn;
  const { id, folder, servers, mode } = session;
  const prompt = contentOf(blocks);
  await servers?.prepare(signal);
  const own =
    mode === "workspace" ? createClientTools({ ...parts, client, capabilities: parts.client(), ...folder }) : [];
  const tools = [...own, ...(mode === "none" ? [] : (servers?.tools() ?? []))];
  const following = await followTurn(parts, turn);
  try {
    await parts.send(client, id, serverNotices(session, following.updateContext.wishes));
    const input = {
      session_id: id,
      prompt,
      flow_tool_overlay: overlayOf(mode),
      ...(session.isModelNew ? { model: session.model } : {}),
    };
    // Also an empty list, which removes tools of another mode or of closed servers.
    const call: CallContext = { signal: leaving, listener: following.listener, tools };
    // The output of a row that runs a turn.
    const result = (await furtherTurn(folder.runtime.dispatch, input, call)) as RunResult;
    session.isModelNew = false;
    await following.finish();
    const used = following.used();
    if (used !== undefined) {
      await parts.send(client, id, usageUpdate(used, following.updateContext.window, result.usage.cost));
    }
    return stopReasonOf(result, following.lastStop());
  } finally {
    await following.finish();
  }
}

function stopReasonOf({ terminal_cause_kind }: RunResult, lastStop: string | undefined): StopReason {
  if (terminal_cause_kind === "turn_limit_reached") return "max_turn_requests";
  if (terminal_cause_kind === "budget_exhausted" || lastStop === "max_tokens") return "max_tokens";
  return lastStop === "content_filter" ? "refusal" : "end_turn";
}

interface Following {
  readonly listener: Listener;
  readonly updateContext: UpdateContext;
  /** Tokens of the context as the last call left it; undefined before there was one. */
  used(): number | undefined;
  lastStop(): string | undefined;
  /** Resolves when every update is sent; may be called twice. */
  finish(): Promise<void>;
}

async function followTurn(parts: PromptParts, turn: Turn): Promise<Following> {
  const { session, client, signal } = turn;
  const updateContext = await parts.sessions.updateContext(session);
  const ended = new AbortController();
  const asking = AbortSignal.any([signal, ended.signal]);
  const compactions = createCompactionReporter(session, updateContext);
  let used: number | undefined;
  let lastStop: string | undefined;

  const ask = async (event: AgentEvent): Promise<void> => {
    const question = questionIn(event);
    if (question === undefined) return;
    turn.wasAsked = true;
    const { root, runtime } = session.folder;
    const place = { client, dispatch: runtime.dispatch, root, askedIn: session.id, signal: asking };
    const isAnswered = await askPerson(question, place);
    if (!isAnswered && !ended.signal.aborted) turn.cancel();
  };
  const { listener, finish } = sendTurnEvents(session.id, async ({ event: received }) => {
    const event = await withMedia(received, updateContext);
    if (event.type === "turn_completed") {
      used = event.usage.input_tokens + event.usage.output_tokens;
      lastStop = event.stop_reason;
    }
    // Not awaited: the turn's other events and its end must arrive meanwhile. A client that cannot ask leaves the
    // question to others, until its time has passed.
    ask(event).catch(() => {});
    const updates = (await compactions(event)) ?? updatesOf(event, updateContext);
    await parts.send(client, session.id, updates);
  });
  return {
    listener,
    updateContext,
    used: () => used,
    lastStop: () => lastStop,
    finish: () => {
      const sent = finish();
      ended.abort("the turn ended");
      // A client that has gone needs no updates; its turn ends by the signal of its request.
      return sent.catch(() => {});
    },
  };
}

async function withMedia(event: AgentEvent, { fill }: UpdateContext): Promise<AgentEvent> {
  if (event.type !== "tool_execution_completed" || event.content === undefined) return event;
  const content = await fill(event.content);
  return typeof content === "string" ? event : { ...event, content };
}

type ReportCompaction = (event: AgentEvent) => Promise<readonly SessionUpdate[] | undefined>;

/** Tells compactions by the id a replay tells them by; the summary stands in the list of compactions. */
function createCompactionReporter(
  { id: session_id, folder }: OpenSession,
  { wishes, window }: UpdateContext,
): ReportCompaction {
  let compactionId = "";
  const update = (status: string, more: object = {}): readonly SessionUpdate[] =>
    wishes.compactions ? [{ sessionUpdate: "compaction_update", compactionId, status, ...more }] : [];
  return async (event) => {
    switch (event.type) {
      case "compaction_started":
        compactionId = event.compaction_id ?? "";
        return update("in_progress");
      case "compaction_failed":
        return [
          ...update("failed", { error: event.error }),
          ...notice(wishes, "warning", "The context stays as it was"),
        ];
      case "compaction_completed": {
        const made = await findCompaction(folder.runtime.dispatch, session_id, compactionId);
        if (made === undefined) return [];
        return [...(wishes.compactions ? compactionUpdates(made) : []), ...usageUpdate(made.tokens_after, window)];
      }
      default:
        return undefined;
    }
  };
}

async function findCompaction(dispatch: Dispatch, session_id: string, id: string) {
  try {
    const { compactions } = await dispatch("listCompactions", { session_id });
    return compactions.find(({ compaction_id }) => compaction_id === id);
  } catch (thrown) {
    // Without a store there is no list; the compaction itself was made.
    if (thrown instanceof RuntimeError) return undefined;
    throw thrown;
  }
}

type Question = AgentEventOf<"tool_approval_requested">;

/** The answer of an option. */
const WORDS: Readonly<Record<string, object>> = {
  once: { decision: "allow" },
  session: { decision: "allow", remember: "session" },
  project: { decision: "allow", remember: "project" },
  no: { decision: "deny" },
};

interface AskParts {
  readonly client: AgentContext;
  readonly dispatch: Dispatch;
  readonly root: string;
  /** The session the client knows; a sub-agent's question is put in its parent's. */
  readonly askedIn: string;
  readonly signal: AbortSignal;
}

/** Asks the person about each call of a question, one after the other; resolves with false when the turn is to end. */
export async function askPerson(question: Question, parts: AskParts): Promise<boolean> {
  const { session_id, approval_id } = question;
  for (const call of question.calls) {
    const { title, kind, content, locations } = describeCall(call, parts.root);
    const asked = call.question && { title: `MCP server ${call.question.server} asks: ${call.question.message}` };
    const shown = { title, kind, content, locations, rawInput: call.args, ...asked };
    const { outcome } = await parts.client.request(
      "session/request_permission",
      {
        sessionId: parts.askedIn,
        toolCall: { toolCallId: call.id, name: call.name, status: "pending", ...defined(shown) },
        options: optionsFor(call),
      },
      { cancellationSignal: parts.signal, stopWaitingOnCancel: true },
    );
    if (parts.signal.aborted || outcome.outcome === "cancelled") return false;
    // Anything but an offered option is a denial, also the name of an inherited property.
    const word = Object.hasOwn(WORDS, outcome.optionId) ? WORDS[outcome.optionId] : WORDS.no;
    await parts.dispatch("answerApproval", { session_id, approval_id, calls: [call.id], ...word });
  }
  return true;
}

/** Once, always and no; always only where a rule for it is safe. */
function optionsFor({ always, question }: AskedCall): PermissionOption[] {
  // An editor sends no fields: what needs some is answered elsewhere.
  if (question !== undefined) return [{ optionId: "no", name: "Decline", kind: "reject_once" }];
  const rules = always?.join(", ");
  return [
    { optionId: "once", name: "Allow once", kind: "allow_once" },
    ...(rules === undefined
      ? []
      : [
          { optionId: "session", name: `Always in this session: ${rules}`, kind: "allow_always" } as const,
          { optionId: "project", name: `Always in this project: ${rules}`, kind: "allow_always" } as const,
        ]),
    { optionId: "no", name: "Do not allow", kind: "reject_once" },
  ];
}
