import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  inputRequired,
  inputResponse,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  type Result,
  type Server,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { parentageOf, questionIn } from "@rkat/core/contract/describe-event";
import { asRuntimeError, ERRORS, RuntimeError } from "@rkat/core/contract/error";
import type { AgentEvent } from "@rkat/core/contract/event";
import { isRecord } from "@rkat/core/contract/json";
import { TaskRequest } from "@rkat/core/contract/wire/mcp-tools";
import { parseParams } from "@rkat/core/contract/wire/requests";
import type { CallContext, Dispatch } from "@rkat/core/runtime/dispatch";
import type { Listener } from "@rkat/core/sessions/event-queue";
import { answerTo, formFor, type Question, stepOf } from "./questions.ts";

/** The extension by which a call is answered with a task, whose end is polled. */
export const TASKS = "io.modelcontextprotocol/tasks";

const POLL_MS = 1_000;
/** Sub-agents of sub-agents. */
const LEVELS_MAX = 64;

/** A turn by its session and its first seq: all that a task is. The log has the rest, for every server of the realm. */
interface TurnRef {
  readonly session_id: string;
  readonly turn: number;
}

type Responses = ServerContext["mcpReq"]["inputResponses"];

/** What the client of a request can do, as the request says. */
export interface Declared {
  readonly hasTasks: boolean;
  readonly canAsk: boolean;
}

/** What is not there, or not as it should be, is not declared. */
export function declaredIn(envelope: unknown): Declared {
  const declared = isRecord(envelope) ? envelope[CLIENT_CAPABILITIES_META_KEY] : undefined;
  const { extensions, elicitation } = isRecord(declared) ? declared : {};
  const canAsk = isRecord(elicitation) && (elicitation.form !== undefined || elicitation.url === undefined);
  return { hasTasks: isRecord(extensions) && Object.hasOwn(extensions, TASKS), canAsk };
}

export function tasksMissing(): MissingRequiredClientCapabilityError {
  const requiredCapabilities = { extensions: { [TASKS]: {} } };
  return new MissingRequiredClientCapabilityError({ requiredCapabilities }, `this needs the capability ${TASKS}`);
}

/** How a request without a connection runs a turn. */
export interface TurnCall extends Declared {
  readonly dispatch: Dispatch;
  readonly signal: AbortSignal;
  /** What an earlier answer to the same request asked, and what the client's user says. */
  readonly requestState: string | undefined;
  readonly responses: Responses;
  /** Receives a turn that continues after the answer. */
  readonly lasting: (turn: Promise<unknown>) => void;
}

/** An answer before the turn is over: its task, or what its client is to ask. */
export class Paused {
  readonly answer: Result;
  constructor(answer: Result) {
    this.answer = answer;
  }
}

/** Runs a turn up to its end, or until it is a task, or until its client has something to ask. */
export async function runAlone(
  call: TurnCall,
  start: (context: CallContext) => Promise<unknown>,
  { next, session_id }: { readonly next: Listener; readonly session_id: string | undefined },
): Promise<unknown> {
  const { dispatch, hasTasks, canAsk, signal, requestState } = call;
  const resumed = requestState === undefined ? undefined : refIn(requestState, "requestState");
  if (resumed !== undefined && resumed.session_id !== (session_id ?? resumed.session_id)) {
    throw unknownTurn("requestState");
  }
  const dismissed = resumed === undefined ? NONE : await answerAll(dispatch, resumed, call.responses);
  const { promise: paused, resolve } = Promise.withResolvers<Paused>();
  let ref = resumed;
  let isPaused = false;
  const pause = (answer: Result): void => {
    isPaused = true;
    resolve(new Paused(answer));
  };
  const ask = (questions: readonly Question[]): void => {
    const open = questions.filter(({ approval_id }) => !dismissed.has(approval_id));
    if (!canAsk || open.length === 0 || ref === undefined) return;
    pause({ ...inputRequired({ inputRequests: requestsFor(open), requestState: idOf(ref) }) });
  };
  const listener: Listener = (delivery) => {
    if (isPaused) return;
    next(delivery);
    const { event, seq } = delivery;
    if (event.type === "run_started" && ref === undefined) {
      ref = { session_id: event.session_id, turn: seq };
      // Where nothing is stored a turn cannot be found again, and is waited for.
      if (hasTasks) readTask(dispatch, ref, false).then((task) => pause(createdTask(task)), ignore);
    }
    const question = hasTasks ? undefined : questionIn(event);
    if (question !== undefined) ask([question]);
  };
  const stopping = new AbortController();
  const stop = (): void => stopping.abort(signal.reason);
  signal.addEventListener("abort", stop);
  const context = { signal: stopping.signal, listener };
  const ended = resumed === undefined ? start(context) : dispatch("finishTurn", resumed, context);
  ended.catch(ignore);
  // Asked before, and not answered.
  if (resumed !== undefined) questionsOf(dispatch, resumed.session_id).then(ask, ignore);
  try {
    const answer = await Promise.race([ended, paused]);
    if (answer instanceof Paused) call.lasting(ended.catch(ignore));
    return answer;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

const NONE: ReadonlySet<string> = new Set();
const ignore = (): void => {};

/** `tasks/get`, `tasks/update` and `tasks/cancel`; the end of a turn is encoded as its call would have been answered. */
export function serveTasks(server: Server, dispatch: Dispatch, encode: Encode): void {
  const serve = (method: string, answer: (ref: TurnRef, mcpReq: ServerContext["mcpReq"]) => Promise<Result>): void =>
    server.setRequestHandler(method, { params: UNCHECKED }, async (params, { mcpReq }) => {
      if (!declaredIn(mcpReq.envelope).hasTasks) throw tasksMissing();
      try {
        return await answer(refIn(parseParams(TaskRequest, params).taskId, "taskId"), mcpReq);
      } catch (thrown) {
        throw asProtocolError(thrown);
      }
    });
  serve("tasks/get", async (ref, { envelope }) => {
    const { isOver, ...task } = await readTask(dispatch, ref, declaredIn(envelope).canAsk);
    if (!isOver) return { ...task };
    const end = await dispatch("finishTurn", ref).then(encode.result, asRuntimeError);
    if (!(end instanceof RuntimeError)) return { ...task, status: "completed", result: end };
    if (end.code === "REQUEST_CANCELLED") return { ...task, status: "cancelled" };
    return { ...task, status: "completed", result: encode.failure(end) };
  });
  serve("tasks/update", async (ref, { inputResponses }) => {
    await readTask(dispatch, ref, false);
    await answerAll(dispatch, ref, inputResponses);
    return {};
  });
  serve("tasks/cancel", async (ref) => {
    const { isOver } = await readTask(dispatch, ref, false);
    if (!isOver) await dispatch("interruptTurn", { session_id: ref.session_id });
    return {};
  });
}

interface Encode {
  readonly result: (output: unknown) => CallToolResult;
  readonly failure: (error: RuntimeError) => CallToolResult;
}

/** The handler checks its params itself, so that a client reads one sentence. */
const UNCHECKED = {
  "~standard": { version: 1 as const, vendor: "rkat", validate: (value: unknown) => ({ value }) },
};

function asProtocolError(thrown: unknown): ProtocolError {
  if (thrown instanceof ProtocolError) return thrown;
  const error = asRuntimeError(thrown);
  if (error.code === "SESSION_NOT_FOUND") return unknownTurn("taskId");
  return new ProtocolError(ERRORS[error.code].rpc, error.message, error.toWire());
}

const ID = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([1-9]\d{0,14})$/;

function idOf({ session_id, turn }: TurnRef): string {
  return `${session_id}.${turn}`;
}

/** Clients may send another session's id here: the caller may do there what it may do by any other call. */
function refIn(id: string, field: string): TurnRef {
  const [, session_id, turn] = ID.exec(id) ?? [];
  if (session_id === undefined) throw unknownTurn(field);
  return { session_id, turn: Number(turn) };
}

function unknownTurn(field: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `${field}: there is no such turn here`);
}

/** A task as the log has it; one whose process has ended is continued here. */
async function readTask(dispatch: Dispatch, ref: TurnRef, canAsk: boolean) {
  const { session_id, turn } = ref;
  const events = await eventsOf(dispatch, ref);
  const [first] = events;
  if (first?.cursor.sequence !== turn || first.payload.type !== "run_started") throw unknownTurn("taskId");
  const isOver = events.some(({ payload }, at) => at > 0 && isEnd(payload));
  const times = {
    createdAt: new Date(first.timestamp_ms).toISOString(),
    lastUpdatedAt: new Date(events.at(-1)?.timestamp_ms ?? 0).toISOString(),
  };
  const task = { taskId: idOf(ref), ...times, ttlMs: null, pollIntervalMs: POLL_MS, isOver };
  const step = events.map(({ payload }) => stepOf(payload)).findLast((said) => said !== undefined);
  const working = { ...task, status: "working", ...(step === undefined ? {} : { statusMessage: step }) };
  if (isOver) return working;
  const questions = await questionsOf(dispatch, session_id);
  if (questions.length > 0) {
    const statusMessage = "waits for approval of tool calls";
    if (!canAsk) return { ...working, statusMessage };
    return { ...task, status: "input_required", statusMessage, inputRequests: requestsFor(questions) };
  }
  const { state } = await dispatch("readSession", { session_id });
  if (state === "interrupted") dispatch("finishTurn", { session_id }).catch(ignore);
  return working;
}

/** The end of a turn, or the beginning of the next. */
const isEnd = ({ type }: AgentEvent): boolean => type.startsWith("run_");

/** The events of a turn, and the beginning of the next one if there is one. */
async function eventsOf(dispatch: Dispatch, { session_id, turn }: TurnRef) {
  const scope = { type: "session", session_id };
  let page = await dispatch("listEvents", { scope, cursor: { scope, sequence: turn - 1 } });
  const events = [...page.events];
  while (page.has_more && !events.some(({ payload }, at) => at > 0 && isEnd(payload))) {
    page = await dispatch("listEvents", { scope, cursor: events.at(-1)?.cursor });
    events.push(...page.events);
  }
  const end = events.findIndex(({ payload }, at) => at > 0 && isEnd(payload));
  return end < 0 ? events : events.slice(0, end + 1);
}

function createdTask({ isOver: _, ...task }: Awaited<ReturnType<typeof readTask>>): Result {
  return { resultType: "task", ...task, status: "working" };
}

/** What a session waits for, its sub-agents' questions included. */
async function questionsOf(dispatch: Dispatch, session_id: string): Promise<readonly Question[]> {
  const { approvals } = await dispatch("listApprovals", {});
  const own = await Promise.all(approvals.map(({ session_id: of }) => isUnder(dispatch, of, session_id)));
  return approvals.filter((_, at) => own[at]);
}

async function isUnder(dispatch: Dispatch, session_id: string, ancestor: string): Promise<boolean> {
  let at: string | undefined = session_id;
  for (let level = 0; level < LEVELS_MAX && at !== undefined && at !== ancestor; level += 1) {
    at = parentageOf(await dispatch("readSession", { session_id: at }))?.parent;
  }
  return at === ancestor;
}

function requestsFor(questions: readonly Question[]) {
  const entries = questions.map((question) => [question.approval_id, inputRequired.elicit(formFor(question))]);
  return Object.fromEntries(entries);
}

/** Gives the answers that are waited for and ignores others; returns the questions that the user dismissed. */
async function answerAll(dispatch: Dispatch, { session_id }: TurnRef, responses: Responses) {
  const dismissed = new Set<string>();
  for (const question of responses === undefined ? [] : await questionsOf(dispatch, session_id)) {
    const response = inputResponse(responses, question.approval_id);
    if (response.kind !== "elicit") continue;
    const answer = answerTo(question, response);
    if (answer === undefined) dismissed.add(question.approval_id);
    else await dispatch("answerApproval", answer);
  }
  return dismissed;
}
