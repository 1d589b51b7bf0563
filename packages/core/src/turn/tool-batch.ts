import type { EntryBody, EntryBodyOf } from "../contract/entry.ts";
import { invalid, messageOf } from "../contract/error.ts";
import type { AgentEvent } from "../contract/event.ts";
import {
  type Content,
  type ReadOutput,
  readToolOutput,
  type ToolResult,
  type ToolUseBlock,
} from "../contract/message.ts";
import type { Clock } from "../ports/clock.ts";
import { AskUser, type Tool } from "../ports/tool.ts";
import type { SessionState } from "../state/session-state.ts";
import { answeredQuestion } from "./approval.ts";
import { type CheckInWorker, compileSchema, requireSound } from "./json-schema.ts";
import { type Redact, redactSlowly } from "./redact.ts";

export interface ToolLimits {
  readonly timeoutMs: number;
  readonly concurrentMax: number;
  /** Longer text is cut in the context and stored whole as a blob. */
  readonly outputBytesMax: number;
  /** How long an aborted tool may take to return. */
  readonly abortGraceMs: number;
}

export interface ToolBatch {
  readonly tools: ReadonlyMap<string, Tool>;
  readonly clock: Clock;
  readonly limits: ToolLimits;
  /** Aborts when the turn is interrupted or its time is up. */
  readonly signal: AbortSignal;
  readonly shellEnv: Readonly<Record<string, string>>;
  /** Calls that must not run, with the text for the model. */
  readonly refusals: ReadonlyMap<string, string>;
  /** How many calls the budget still allows; the others are answered without running. */
  readonly callsAllowed: number;
  readonly redact: Redact;
  readonly checkInWorker: CheckInWorker;
  /** Lets hooks change an output before it is stored; absent without such hooks. */
  judge?(call: ToolUseBlock["data"], output: ReadOutput): Promise<ReadOutput> | ReadOutput;
  /** The text for the model about a call that was abandoned by an interrupt. */
  interrupted(callId: string): string;
  emit(event: AgentEvent): void;
  append(bodies: readonly EntryBody[]): Promise<void>;
  /** The state of the session, for the recorded steps of its calls. */
  readonly state: Pick<SessionState, "sessionId" | "openCallsSeq" | "steps" | "approval">;
  /** How long a question waits for the user; undefined if no one can be asked. */
  readonly asksWithinMs: number | undefined;
  keep(text: string): Promise<string>;
  keepMedia(content: Content): Promise<Content>;
}

/** A call whose server asks the user. */
export interface Asking {
  readonly call: ToolUseBlock["data"];
  readonly ask: AskUser;
}

/** A call with its result. */
export interface Answered {
  readonly result: ToolResult;
  readonly call: EntryBodyOf<"tool_results">["calls"][number];
}

/**
 * Runs the calls of one answer in parallel, except those that the client runs. The result of a call that must happen once
 * is recorded soon after its end if other calls still run; the answers are the rest, in request order.
 */
export async function runToolCalls(
  batch: ToolBatch,
  given: readonly ToolUseBlock[],
): Promise<{
  readonly answers: readonly Answered[];
  readonly pending: readonly ToolUseBlock[];
  readonly asking: readonly Asking[];
}> {
  const pending = given.filter((call, index) => isPending(batch, call, index));
  const refusals = new Map(batch.refusals);
  for (const { data } of given.slice(Math.max(0, batch.callsAllowed)))
    if (!refusals.has(data.id)) refusals.set(data.id, OUT_OF_CALLS);
  const calls = given.filter((call) => !pending.includes(call));
  const answers: (Answered | undefined)[] = new Array(calls.length);
  const asking: Asking[] = [];
  let next = 0;
  let running = calls.length;
  let failure: { readonly thrown: unknown } | undefined;
  const done = new AbortController();
  const recording: Promise<void>[] = [];
  const worker = async (): Promise<void> => {
    for (let index = next++; index < calls.length; index = next++) {
      const call = calls[index];
      if (call === undefined) return;
      const refusal = refusals.get(call.data.id);
      const answer = refusal === undefined ? await answerCall(batch, call) : notRun(call, refusal);
      running -= 1;
      if ("ask" in answer) {
        asking.push(answer);
        continue;
      }
      answers[index] = answer;
      if (running > 0 && refusal === undefined && isOnce(batch, call)) recording.push(record(index, answer));
    }
  };
  /** Records the result of a call while others run; if they end soon, all results are recorded together. */
  const record = async (index: number, answer: Answered): Promise<void> => {
    await batch.clock.sleep(RECORD_AFTER_MS, done.signal);
    if (done.signal.aborted || failure !== undefined) return;
    try {
      await batch.append([heldEntry([await boundAnswer(batch, answer)])]);
      answers[index] = undefined;
    } catch (thrown) {
      failure = { thrown };
    }
  };
  const workers = Math.min(batch.limits.concurrentMax, calls.length);
  await Promise.all(Array.from({ length: workers }, worker));
  done.abort("done");
  await Promise.all(recording);
  // After the last of them: a store failure ends the turn, and no tool may be running then.
  if (failure !== undefined) throw failure.thrown;
  const left = answers.filter((answer) => answer !== undefined);
  return { answers: await Promise.all(left.map((answer) => boundAnswer(batch, answer))), pending, asking };
}

const RECORD_AFTER_MS = 50;

function isOnce({ tools }: ToolBatch, { data }: ToolUseBlock): boolean {
  return (tools.get(data.name)?.effects ?? "once") === "once";
}

/** Results of an answer's calls, before the others have ended. */
export function heldEntry(answers: readonly Answered[]): EntryBodyOf<"results_held"> {
  return {
    kind: "results_held",
    results: answers.map(({ result }) => result),
    calls: answers.map(({ call }) => call),
  };
}

/** Whether the client runs this call. */
function isPending({ tools, refusals, callsAllowed }: ToolBatch, { data }: ToolUseBlock, index: number): boolean {
  return (
    tools.get(data.name)?.isClients === true &&
    data.args_error === undefined &&
    index < callsAllowed &&
    !refusals.has(data.id)
  );
}

type Bounds = Pick<ToolBatch, "redact" | "clock" | "limits" | "keep" | "keepMedia">;

/** Bounds the results of calls that the client ran. */
export async function takeResults(
  batch: Bounds,
  state: Pick<SessionState, "openCalls" | "heldResults">,
  results: readonly ToolResult[],
): Promise<EntryBodyOf<"tool_results">> {
  const bound = new Map(
    await Promise.all(
      results.map(
        async (one) => [one.tool_use_id, { ...one, content: await boundContent(batch, one.content) }] as const,
      ),
    ),
  );
  return joinResults(
    state.openCalls,
    state.heldResults,
    (call) => {
      const result = bound.get(call.data.id);
      if (result === undefined) return notRun(call, UNANSWERED);
      return { result, call: { name: call.data.name, duration_ms: 0, counted: true } };
    },
    batch.clock,
  );
}

/** The result of a client's call when the turn continued without one. */
export const UNANSWERED = "no result: the caller continued without one";

/** Answers calls that will not run, so that providers accept the history. */
export function closeCalls(
  calls: readonly ToolUseBlock[],
  sentence: string | ((callId: string) => string),
  clock: Clock,
  held: SessionState["heldResults"] = [],
): EntryBodyOf<"tool_results"> {
  return joinResults(
    calls,
    held,
    (call) => notRun(call, typeof sentence === "string" ? sentence : sentence(call.data.id)),
    clock,
  );
}

/** The results of all calls of an answer: recorded ones, which were counted then, and new ones. */
export function joinAnswers(
  { openCalls, heldResults }: Pick<SessionState, "openCalls" | "heldResults">,
  answers: readonly Answered[],
  clock: Clock,
): EntryBodyOf<"tool_results"> {
  const byId = new Map(answers.map((answer) => [answer.result.tool_use_id, answer]));
  return joinResults(openCalls, heldResults, (call) => byId.get(call.data.id) ?? notRun(call, INTERRUPTED), clock);
}

function joinResults(
  calls: readonly ToolUseBlock[],
  held: SessionState["heldResults"],
  answer: (call: ToolUseBlock) => Answered,
  clock: Clock,
): EntryBodyOf<"tool_results"> {
  const there = new Map(
    held.flatMap(({ body }) =>
      body.results.map((result, at): [string, Answered] => {
        const { name, duration_ms } = body.calls[at] ?? { name: "unknown", duration_ms: 0 };
        return [result.tool_use_id, { result, call: { name, duration_ms, counted: false } }];
      }),
    ),
  );
  return toEntry(
    clock,
    calls.map((call) => there.get(call.data.id) ?? answer(call)),
  );
}

export const INTERRUPTED = "interrupted: this call may or may not have taken effect";
/** The result of a call that has none recorded, and whose tool must not run twice. */
export const UNKNOWN =
  "unknown: the process ended while this call ran, so it may or may not have taken effect; check before you repeat it";
/** The same for a call that may have worked in a child session. */
export function interruptedIn({ children }: Pick<SessionState, "children">): (callId: string) => string {
  return (callId) => {
    const child = children.find((one) => one.callId === callId);
    if (child === undefined) return INTERRUPTED;
    const { agent, childId } = child;
    return `interrupted: sub-agent ${agent} worked in session ${childId}; call agent with this session_id to continue it`;
  };
}
const OUT_OF_CALLS = "not run: the tool call budget of this session is exhausted";
/** Budgets that an answer itself can exhaust. */
export const OUT_OF = {
  tokens: "not run: the token budget of this session is exhausted",
  cost: "not run: the cost budget of this session is exhausted",
} as const;

function toEntry(clock: Clock, answers: readonly Answered[]): EntryBodyOf<"tool_results"> {
  return {
    kind: "tool_results",
    message: {
      role: "tool_results",
      results: answers.map((answer) => answer.result),
      created_at: new Date(clock.now()).toISOString(),
    },
    calls: answers.map((answer) => answer.call),
  };
}

function notRun({ data }: ToolUseBlock, sentence: string): Answered {
  return {
    result: { tool_use_id: data.id, content: sentence, is_error: true },
    call: { name: data.name, duration_ms: 0, counted: false },
  };
}

async function answerCall(batch: ToolBatch, call: ToolUseBlock): Promise<Answered | Asking> {
  const { id, name } = call.data;
  const startedMs = batch.clock.now();
  batch.emit({ type: "tool_execution_started", id, name });
  const output = await execute(batch, call);
  if (output instanceof AskUser) return { call: call.data, ask: JSON.parse(batch.redact(JSON.stringify(output))) };
  const duration_ms = Math.max(0, Math.round(batch.clock.now() - startedMs));
  const { content, isError: is_error } = batch.judge === undefined ? output : await batch.judge(call.data, output);
  const reading = batch.tools.get(name)?.effects === "none" ? { read_only: true as const } : {};
  return { result: { tool_use_id: id, content, is_error }, call: { name, duration_ms, counted: true, ...reading } };
}

/** Runs a call; failures become its output. */
async function execute(batch: ToolBatch, call: ToolUseBlock): Promise<ReadOutput | AskUser> {
  const { id, name, args, args_error } = call.data;
  const tool = batch.tools.get(name);
  if (tool === undefined) {
    const known = [...batch.tools.keys()].join(", ");
    return failed(`there is no tool "${name}"; ${known === "" ? "no tools are available" : `available: ${known}`}`);
  }
  if (args_error !== undefined) return failed(`the arguments of ${name} were not usable: ${args_error}`);
  try {
    const check = await compileSchema(tool.inputSchema, `the input schema of tool ${name}`, batch.checkInWorker);
    const problems = await check(args);
    if (problems.length > 0) return failed(`the arguments of ${name} are wrong: ${problems.join("; ")}`);
    return await runBounded(batch, tool, { id, args });
  } catch (thrown) {
    return failed(messageOf(thrown));
  }
}

/** Runs a tool until it answers, times out or the turn ends; a tool that ignores its signal is abandoned. */
async function runBounded(
  batch: ToolBatch,
  tool: Tool,
  call: { id: string; args: Record<string, unknown> },
): Promise<ReadOutput | AskUser> {
  const { clock, limits } = batch;
  if (batch.signal.aborted) return failed(batch.interrupted(call.id));
  const timeoutMs = tool.timeoutMs ?? limits.timeoutMs;
  const aborting = new AbortController();
  const done = new AbortController();
  const onAbort = (): void => aborting.abort();
  batch.signal.addEventListener("abort", onAbort, { once: true });
  let hasTimedOut = false;
  const expiry = clock.sleep(timeoutMs, done.signal).then(() => {
    if (done.signal.aborted || aborting.signal.aborted) return;
    hasTimedOut = true;
    aborting.abort();
  });
  const { sessionId, openCallsSeq } = batch.state;
  const context = {
    sessionId,
    toolUseId: call.id,
    signal: aborting.signal,
    shellEnv: batch.shellEnv,
    effectId: `${sessionId}:${openCallsSeq}:${call.id}`,
    asksWithinMs: batch.asksWithinMs,
    answered: answeredQuestion(batch.state, call.id),
    step: <T>(name: string, run: () => T | Promise<T>) => runStep(batch, { id: call.id, name, run }),
  };
  // A copy: a tool may modify its arguments, and the log holds the originals.
  const running = (async () => tool.execute(structuredClone(call.args), context))();
  try {
    const left = abandoned(aborting.signal, { clock, limits, done: done.signal });
    const returned: unknown = await Promise.race([running, left]);
    if (returned instanceof AskUser && !aborting.signal.aborted) return returned;
    if (returned !== ABANDONED && !hasTimedOut) return readToolOutput(tool.name, returned);
    running.catch(() => {}); // It lost the race; what it says later has no one to tell.
    if (!hasTimedOut) return failed(batch.interrupted(call.id));
    batch.emit({ type: "tool_execution_timed_out", id: call.id, name: tool.name, timeout_ms: timeoutMs });
    return failed(
      `${tool.name} did not finish within ${timeoutMs} ms and was stopped; it may or may not have taken effect`,
    );
  } finally {
    done.abort("done"); // A word: without a reason each call would make an error, stack and all, for nobody.
    batch.signal.removeEventListener("abort", onAbort);
    await expiry;
  }
}

const STEP_BYTES_MAX = 64 * 1_024;
const STEPS_MAX = 1_000;

/** Returns the recorded result of a step, or runs it and records its result. */
async function runStep<T>(
  { state, append, redact }: ToolBatch,
  { id, name, run }: { readonly id: string; readonly name: string; readonly run: () => T | Promise<T> },
): Promise<T> {
  if (typeof name !== "string" || name === "") throw invalid("step: give the step a name");
  const recorded = state.steps.find(({ body }) => body.call_id === id && body.name === name);
  // `as`: the recorded value is that of the same function in an earlier run of the call.
  if (recorded !== undefined) return recorded.body.value as T;
  if (state.steps.length >= STEPS_MAX)
    throw invalid(`step ${name}: the calls of one answer record ${STEPS_MAX} steps at most`);
  const value = await run();
  const text = JSON.stringify(value ?? null);
  if (text === undefined) throw invalid(`step ${name}: its result must be JSON`);
  if (new TextEncoder().encode(text).length > STEP_BYTES_MAX)
    throw invalid(`step ${name}: its result is longer than ${STEP_BYTES_MAX} bytes as JSON; return a reference to it`);
  await append([{ kind: "step_ended", call_id: id, name, value: JSON.parse(redact(text)) }]);
  return value;
}

const ABANDONED = Symbol("abandoned");

/** Resolves when the call was aborted and its grace period is over. */
function abandoned(
  aborted: AbortSignal,
  { clock, limits, done }: { clock: Clock; limits: ToolLimits; done: AbortSignal },
): Promise<typeof ABANDONED> {
  return new Promise((resolve) => {
    const wait = (): void => {
      void clock.sleep(limits.abortGraceMs, done).then(() => resolve(ABANDONED));
    };
    if (aborted.aborted) wait();
    else aborted.addEventListener("abort", wait, { once: true });
  });
}

function failed(sentence: string): ReadOutput {
  return { content: sentence, isError: true };
}

async function boundAnswer(batch: ToolBatch, { result, call }: Answered): Promise<Answered> {
  return { result: { ...result, content: await boundContent(batch, result.content) }, call };
}

async function boundContent(batch: Bounds, content: Content): Promise<Content> {
  const boundOne = async (text: string): Promise<string> =>
    boundText(
      await redactSlowly(batch.redact, text, batch.clock.yieldToEventLoop),
      batch.limits.outputBytesMax,
      batch.keep,
    );
  if (typeof content === "string") return boundOne(content);
  const bounded = await Promise.all(
    content.map(async (block) => (block.type === "text" ? { ...block, text: await boundOne(block.text) } : block)),
  );
  return batch.keepMedia(bounded);
}

const HEAD_SHARE = 0.5;

/** Cuts long text to its head and tail around a reference to the whole. */
async function boundText(text: string, bytesMax: number, keep: (text: string) => Promise<string>): Promise<string> {
  // A UTF-16 unit is at most three UTF-8 bytes: most outputs need no encoding.
  if (text.length * 3 <= bytesMax) return text;
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= bytesMax) return text;
  const blobId = await keep(text);
  const headBytes = Math.floor(bytesMax * HEAD_SHARE);
  const head = decodeWhole(bytes.subarray(0, headBytes));
  const tail = decodeWhole(bytes.subarray(bytes.length - (bytesMax - headBytes)));
  const cut = bytes.length - bytesMax;
  return `${head}\n[… ${cut} of ${bytes.length} bytes left out here; the full output is blob ${blobId} …]\n${tail}`;
}

/** Decodes a slice; a character that was cut is dropped. */
function decodeWhole(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes).replace(/^\uFFFD+|(?<!\uFFFD)\uFFFD+$/g, "");
}

/** Throws INVALID_PARAMS, naming the tool, unless all can be offered and called: untyped code may pass them. */
export function requireTools(tools: readonly Tool[], field = "tools"): void {
  if (!Array.isArray(tools)) throw invalid(`${field}: give a list of tools`);
  for (const [index, tool] of tools.entries()) {
    const fault = toolFault(tool);
    if (fault !== undefined) throw invalid(`${field}.${index}: ${fault}`);
    if (tools.findIndex(({ name }) => name === tool.name) < index) {
      throw invalid(`${field}.${index}: there are two tools named ${tool.name}; rename one of them`);
    }
    requireSound(tool.inputSchema, `the input schema of tool ${tool.name}`);
  }
}

function toolFault(tool: unknown): string | undefined {
  if (typeof tool !== "object" || tool === null) return "give a tool, {name, description, inputSchema, execute}";
  // `as`: any field of an object may be read; its value is unknown.
  const { name, description, inputSchema, execute, timeoutMs = 1 } = tool as { readonly [K in keyof Tool]?: unknown };
  if (typeof name !== "string" || name === "") return "give the tool a name";
  if (typeof description !== "string") return `give tool ${name} a description`;
  const isSchema = typeof inputSchema === "object" && inputSchema !== null && !Array.isArray(inputSchema);
  if (!isSchema) return `give tool ${name} an inputSchema, a JSON schema`;
  if (typeof execute !== "function") return `give tool ${name} a function execute`;
  return typeof timeoutMs === "number" && timeoutMs > 0 ? undefined : `give tool ${name} a timeoutMs above 0`;
}
