import type { EntryBody, TurnEnd } from "../contract/entry.ts";
import { defined } from "../contract/json.ts";
import type { Content, ToolResult, ToolUseBlock } from "../contract/message.ts";
import type { Progress } from "../contract/permission.ts";
import type { HookSubject } from "../ports/hook.ts";
import { denialText, endOfDenial, type HookDenial, type Hooks } from "./hooks.ts";
import type { ModelAnswer } from "./model-call.ts";
import { type Run, stillUnsaved, type Turn } from "./run.ts";
import { assistantText, contentText } from "./tokens.ts";
import { CANCELLED, outputLimit } from "./turn-end.ts";

/** The hooks' result for a step: entries to save next, and the end of the turn if it must stop. */
interface Guarded {
  readonly unsaved: EntryBody[];
  readonly end: TurnEnd | undefined;
}

type GuardedPoint = Run["unnotified"][number];

/**
 * Calls the hooks of a step once everything before it is durable; undefined if there are none. If all only observe,
 * nothing is saved for them: they run after the next append.
 */
export async function guardStep(
  run: Run,
  point: GuardedPoint,
  unsaved: readonly EntryBody[],
): Promise<Guarded | undefined> {
  const { hooks } = run.turn;
  if (hooks?.has(point) !== true) return undefined;
  if (!hooks.decides(point)) {
    run.unnotified.push(point);
    return undefined;
  }
  const before = await saveAndEmit(run, unsaved);
  const { reported, denied, isInterrupted } = await hooks.run(point, subjectOf(run, point), waitOf(run));
  const end = denied === undefined ? isInterrupted && CANCELLED : endOfDenial(denied);
  return { unsaved: [...before, ...reported], end };
}

/** Notifies observers of the past steps, which are saved now; returns the entries to save next. */
export async function notifyObservers(run: Run): Promise<EntryBody[]> {
  const { hooks } = run.turn;
  const all: EntryBody[] = [];
  if (hooks === undefined) return all;
  for (const point of run.unnotified.splice(0)) {
    const { reported } = await hooks.run(point, subjectOf(run, point), waitOf(run));
    all.push(...reported);
  }
  return all;
}

async function saveAndEmit(run: Run, unsaved: readonly EntryBody[]): Promise<EntryBody[]> {
  if (unsaved.length > 0) await run.turn.append(() => stillUnsaved(run, unsaved));
  return run.unnotified.length === 0 ? [] : notifyObservers(run);
}

/** The entries to save when the turn ends before its next call; observers of its steps are notified first. */
export async function notifyBeforeEnd(run: Run, unsaved: EntryBody[]): Promise<EntryBody[]> {
  return run.unnotified.length === 0 ? unsaved : saveAndEmit(run, unsaved);
}

/**
 * Calls the hooks at the boundary where a turn ends by itself. Synchronous observers run before the last entries are
 * saved together with the end; if one is awaited, those entries are saved meanwhile.
 */
export async function guardEnd(run: Run, said: EntryBody[]): Promise<Guarded> {
  const { turn } = run;
  const { hooks } = turn;
  if (hooks?.has("turn_boundary") !== true) return { unsaved: said, end: undefined };
  if (hooks.decides("turn_boundary"))
    return (await guardStep(run, "turn_boundary", said)) ?? { unsaved: said, end: undefined };
  const notifying = hooks.run("turn_boundary", subjectOf(run, "turn_boundary"), waitOf(run));
  if (!(notifying instanceof Promise)) return { unsaved: [...said, ...notifying.reported], end: undefined };
  await turn.append(() => stillUnsaved(run, said));
  return { unsaved: [...(await notifying).reported], end: undefined };
}

function subjectOf({ turn, turns: turn_number }: Run, point: GuardedPoint): HookSubject {
  const { state, model } = turn;
  switch (point) {
    case "run_started": {
      const asked = state.shown.findLast(({ message }) => message.role === "user")?.message;
      return asked?.role === "user" ? { prompt: asked.content } : {};
    }
    case "pre_llm_request": {
      const { max_tokens, provider_params } = state.settings;
      const limit = outputLimit(max_tokens, model.contextWindow);
      return {
        turn_number,
        llm_request: {
          ...defined({ max_tokens: limit, provider_params }),
          message_count: state.shown.length,
          model: model.modelId,
        },
      };
    }
    case "turn_boundary":
      return { turn_number };
  }
}

function waitOf({ turn, deadlineMs }: Run) {
  return { signal: turn.signal, deadlineMs };
}

type Answer = Extract<ModelAnswer, { ok: true }>;

/** Calls the hooks of an answer before it is stored. A refused answer is not stored; its usage is counted. */
export async function guardAnswer(run: Run, answer: Answer): Promise<Guarded | undefined> {
  const { hooks } = run.turn;
  if (hooks?.has("post_llm_response") !== true) return undefined;
  const { blocks, stopReason: stop_reason, usage } = answer;
  const tool_call_names = blocks.flatMap((block) => (block.block_type === "tool_use" ? [block.data.name] : []));
  const llm_response = { assistant_text: assistantText({ blocks }), tool_call_names, stop_reason, usage: { ...usage } };
  const subject = { turn_number: run.turns - 1, llm_response };
  const { reported, denied, isInterrupted } = await hooks.run("post_llm_response", subject, waitOf(run));
  if (denied === undefined && isInterrupted !== true) return { unsaved: [...reported], end: undefined };
  const end = denied === undefined ? CANCELLED : endOfDenial(denied);
  return { unsaved: [...reported, { kind: "call_failed", usage }], end };
}

export interface GuardedCalls {
  readonly reported: readonly EntryBody[];
  /** The calls with the arguments to judge and run. */
  readonly calls: readonly ToolUseBlock[];
  /** Texts for the model about calls that must not run. */
  readonly refusals: ReadonlyMap<string, string>;
  /** The same for a resumed turn; undefined if hooks changed nothing. */
  readonly decided: Progress["hooks"];
}

const UNJUDGED = "not run: the turn was interrupted before hooks checked it";
const CLIENTS = "it changed the arguments of a tool that the client runs";

/** Calls the hooks of each call before the permission rules: calls in parallel, the hooks of one call in sequence. */
export async function guardCalls({ turn, ...run }: Run, calls: readonly ToolUseBlock[]): Promise<GuardedCalls> {
  const { hooks, tools } = turn;
  // Calls that cannot run are skipped.
  const isAsked = ({ data }: ToolUseBlock): boolean =>
    data.args_error === undefined && tools.has(data.name) && hooks?.has("pre_tool_execution", data.name) === true;
  if (hooks === undefined || !calls.some(isAsked))
    return { reported: [], calls, refusals: new Map(), decided: undefined };
  const reported: EntryBody[] = [];
  const refusals = new Map<string, string>();
  const rewritten = new Map<string, ToolUseBlock>();
  const askAbout = async (call: ToolUseBlock): Promise<void> => {
    const { id: tool_use_id, name, args } = call.data;
    const subject = { turn_number: run.turns - 1, tool_call: { tool_use_id, name, args } };
    const hooked = await hooks.run("pre_tool_execution", subject, { signal: turn.signal, deadlineMs: run.deadlineMs });
    reported.push(...hooked.reported);
    if (hooked.denied !== undefined) refusals.set(tool_use_id, denialText(hooked.denied));
    else if (hooked.isInterrupted) refusals.set(tool_use_id, UNJUDGED);
    else if (hooked.args !== undefined && tools.get(name)?.isClients) refusals.set(tool_use_id, `not run: ${CLIENTS}`);
    else if (hooked.args !== undefined)
      rewritten.set(tool_use_id, { ...call, data: { ...call.data, args: hooked.args } });
  };
  await sideBySide(calls.filter(isAsked), turn.policy.tools.concurrentMax, askAbout);
  const decided = calls.flatMap(({ data: { id } }) => {
    const [args, refusal] = [rewritten.get(id)?.data.args, refusals.get(id)];
    if (args === undefined && refusal === undefined) return [];
    return [{ id, ...(args === undefined ? {} : { args }), ...(refusal === undefined ? {} : { refusal }) }];
  });
  return {
    reported,
    calls: calls.map((call) => rewritten.get(call.data.id) ?? call),
    refusals,
    decided: decided.length === 0 ? undefined : decided,
  };
}

async function sideBySide<T>(items: readonly T[], most: number, work: (item: T) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let item = items[next++]; item !== undefined; item = items[next++]) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, worker));
}

/** The hooks' decisions from before the turn waited for approval. */
export function decidedBefore(calls: readonly ToolUseBlock[], decided: Progress["hooks"] = []): GuardedCalls {
  const by = new Map(decided.map((one) => [one.id, one]));
  return {
    reported: [],
    calls: calls.map((call) => {
      const args = by.get(call.data.id)?.args;
      return args === undefined ? call : { ...call, data: { ...call.data, args } };
    }),
    refusals: new Map(decided.flatMap(({ id, refusal }) => (refusal === undefined ? [] : [[id, refusal] as const]))),
    decided,
  };
}

interface Output {
  readonly content: Content;
  readonly isError: boolean;
}

/**
 * Calls the hooks for tool outputs before they are stored; their changes or refusals replace the output. Entries to
 * save go to `reported`. Undefined if there are none.
 */
export function judgingOutputs(
  { turn, deadlineMs, turns }: Run,
  reported: EntryBody[],
): ((call: ToolUseBlock["data"], output: Output) => Promise<Output> | Output) | undefined {
  const { hooks } = turn;
  if (hooks?.has("post_tool_execution") !== true) return undefined;
  const wait = { signal: turn.signal, deadlineMs };
  return (call, output) => {
    if (!hooks.has("post_tool_execution", call.name)) return output;
    return judgeOutput({ hooks, turn, wait, turns, reported }, call, output);
  };
}

interface Judging {
  readonly hooks: Hooks;
  readonly turn: Turn;
  readonly wait: { readonly signal: AbortSignal; readonly deadlineMs: number };
  readonly turns: number;
  readonly reported: EntryBody[];
}

async function judgeOutput(
  { hooks, turn, wait, turns, reported }: Judging,
  { id: tool_use_id, name, args }: ToolUseBlock["data"],
  { content, isError }: Output,
): Promise<Output> {
  const subject = {
    turn_number: Math.max(0, turns - 1),
    tool_call: { tool_use_id, name, args },
    tool_result: {
      tool_use_id,
      name,
      content: turn.redact(contentText(content)),
      is_error: isError,
      has_images: typeof content !== "string" && content.some(({ type }) => type !== "text"),
    },
  };
  const hooked = await hooks.run("post_tool_execution", subject, wait);
  reported.push(...hooked.reported);
  if (hooked.denied !== undefined) return refused(hooked.denied);
  if (hooked.isInterrupted) return { content: UNSEEN, isError: true };
  return hooked.result ?? { content, isError };
}

const UNSEEN = "the turn was interrupted before hooks checked the output of this call; it has run";

function refused(denial: HookDenial): Output {
  return { content: denialText(denial), isError: true };
}

/** The same for results that the client returned. */
export async function judgeResults(
  run: Run,
  results: readonly ToolResult[],
): Promise<{ readonly reported: readonly EntryBody[]; readonly results: readonly ToolResult[] }> {
  const reported: EntryBody[] = [];
  const judge = judgingOutputs(run, reported);
  if (judge === undefined) return { reported, results };
  const calls = new Map(run.turn.state.openCalls.map(({ data }) => [data.id, data]));
  const judged = await Promise.all(
    results.map(async (result) => {
      const call = calls.get(result.tool_use_id);
      if (call === undefined) return result;
      const { content, isError } = await judge(call, { content: result.content, isError: result.is_error });
      return { ...result, content, is_error: isError };
    }),
  );
  return { reported, results: judged };
}
