import { type ElicitResult, isInputRequiredResult, isSpecType } from "@modelcontextprotocol/client";
import { defined, jsonChars } from "../../contract/json.ts";
import type { ServerQuestion } from "../../contract/permission.ts";
import { z } from "../../contract/schema.ts";
import type { JsonObject } from "../../contract/session.ts";
import type { Clock } from "../../ports/clock.ts";
import { AskUser, type ToolCallContext } from "../../ports/tool.ts";

/** A call, and whether its user can be asked. */
export type AskingCall = Pick<ToolCallContext, "sessionId" | "effectId" | "signal" | "asksWithinMs" | "answered">;

type Result = Readonly<Record<string, unknown>>;

/** Of one call; a server that asks more gets no answer. */
const QUESTIONS_MAX = 8;
const QUESTION_CHARS_MAX = 16 * 1_024;

/** Reads a server's question; throws for what a user of rkat cannot answer. The log keeps it with the rest. */
function readQuestion(server: string, request: unknown, rest: unknown = ""): ServerQuestion {
  const { method, params } = Object(request);
  const refusal = (why: string) => new Error(`MCP server ${server} ${why}`);
  if (method !== "elicitation/create") throw refusal(`asks for ${method}, which rkat does not answer`);
  if (params?.mode === "url") throw refusal("asks to open an address (URL mode), which rkat does not do");
  // First: reading a hundred thousand fields takes seconds.
  if (jsonChars([params, rest]) > QUESTION_CHARS_MAX)
    throw refusal(`asks a question of more than ${QUESTION_CHARS_MAX} characters`);
  if (!isSpecType.ElicitRequestFormParams(params)) throw refusal("asks a question that is none of the protocol");
  return { server, message: params.message, schema: { ...params.requestedSchema } };
}

const Round = z.object({
  asked: z.number(),
  requests: z.record(z.string(), z.unknown()),
  responses: z.record(z.string(), z.unknown()),
  state: z.string().optional(),
});

const NOTHING_ASKED = { asked: 0, requests: {}, responses: {} };

/** A call of 2026-07-28: the server asks by its result, and the same call with the answers continues it. */
export async function callWithInputs(
  server: string,
  by: AskingCall,
  send: (inputs: JsonObject) => Promise<Result>,
): Promise<Result | AskUser> {
  const before = Round.safeParse(by.answered?.resuming).data;
  let { asked, requests, responses, state }: z.infer<typeof Round> = before ?? NOTHING_ASKED;
  const nextKey = () => Object.keys(requests).find((key) => !Object.hasOwn(responses, key));
  const answer = (given: unknown): void => {
    responses = { ...responses, [nextKey() ?? ""]: given };
  };
  if (before !== undefined) answer(by.answered?.answer);
  else if (by.answered !== undefined) throw new Error(LOST);
  for (; asked < 2 * QUESTIONS_MAX; asked += 1) {
    if (nextKey() === undefined) {
      const isFirst = asked === 0 && state === undefined;
      const result = await send(isFirst ? {} : { inputResponses: responses, ...defined({ requestState: state }) });
      if (!isInputRequiredResult(result)) return result;
      requests = { ...result.inputRequests };
      responses = {};
      state = result.requestState;
    }
    const key = nextKey();
    if (key === undefined) continue;
    const question = readQuestion(server, requests[key], [requests, state]);
    if (by.asksWithinMs !== undefined && asked < QUESTIONS_MAX)
      return new AskUser(question, { asked: asked + 1, requests, responses, ...defined({ state }) });
    answer({ action: "decline" });
  }
  throw new Error(`MCP server ${server} asked more than ${QUESTIONS_MAX} questions in one call`);
}

interface Running extends Pick<AskingCall, "sessionId" | "asksWithinMs"> {
  readonly ending: AbortController;
  over: Promise<Result>;
  isOver: boolean;
  asked: number;
  next: PromiseWithResolvers<AskUser>;
  /** Answers the question that it waits with, which ends the wait. */
  reply?: ((answer: ElicitResult) => void) | undefined;
}

export type RunningCalls = ReturnType<typeof createRunningCalls>;

const LOST = "the connection on which its server asked the user is gone: the call may or may not have taken effect";
/** The server is still told that no answer came in time. */
const GRACE_MS = 60_000;

/** The calls on a connection of 2025: the server asks by requests of its own, while the call runs. */
export function createRunningCalls(server: string, clock: Clock) {
  const calls = new Map<string, Running>();
  const closing = new AbortController();
  const begin = (by: AskingCall, start: (signal: AbortSignal) => Promise<Result>): Running => {
    const ending = new AbortController();
    const turn = by.effectId.slice(0, by.effectId.indexOf(":", by.sessionId.length + 1) + 1);
    // Questions that the turns before did not wait for.
    for (const [id, held] of calls)
      if (held.sessionId === by.sessionId && held.reply && !id.startsWith(turn)) held.ending.abort("over");
    const over = start(ending.signal).finally(() => {
      call.isOver = true;
    });
    // It may fail while it waits for the user.
    over.catch(() => {});
    ending.signal.addEventListener("abort", () => calls.delete(by.effectId), { once: true });
    const call: Running = { ...by, ending, over, isOver: false, asked: 0, next: Promise.withResolvers() };
    calls.set(by.effectId, call);
    return call;
  };
  /** Ends a call whose user does not answer. */
  const watch = async ({ ending, asksWithinMs = 0 }: Running, answered: AbortSignal): Promise<void> => {
    const signal = AbortSignal.any([answered, ending.signal, closing.signal]);
    await clock.sleep(asksWithinMs + GRACE_MS, signal, "background");
    if (!signal.aborted) ending.abort("over");
  };
  return {
    /** Starts a call, or continues it with the answer to the question that it has asked. */
    run: async (by: AskingCall, start: (signal: AbortSignal) => Promise<Result>): Promise<Result | AskUser> => {
      const { effectId, signal, answered } = by;
      const held = calls.get(effectId);
      if (answered !== undefined && held?.reply === undefined) throw new Error(LOST);
      const call = held ?? begin(by, start);
      if (answered !== undefined) {
        call.next = Promise.withResolvers();
        // As checked by the server's schema.
        call.reply?.(answered.answer as ElicitResult);
      }
      const stop = (): void => call.ending.abort("interrupted");
      signal.addEventListener("abort", stop, { once: true });
      if (signal.aborted) stop();
      try {
        const result = await Promise.race([call.over, call.next.promise]);
        if (!(result instanceof AskUser)) calls.delete(effectId);
        return result;
      } catch (thrown) {
        calls.delete(effectId);
        throw thrown;
      } finally {
        signal.removeEventListener("abort", stop);
      }
    },
    /** The answer to a request of the server. */
    ask: async (request: unknown): Promise<ElicitResult> => {
      const question = readQuestion(server, request);
      const open = [...calls.values()].filter(({ isOver }) => !isOver);
      const call = open.findLast(({ reply }) => reply === undefined);
      // The request does not name its call, and no session may be asked for another's.
      const isClear = call !== undefined && open.every(({ sessionId }) => sessionId === call.sessionId);
      if (!isClear || call.asksWithinMs === undefined || call.asked >= QUESTIONS_MAX) return { action: "decline" };
      call.asked += 1;
      const { promise, resolve } = Promise.withResolvers<ElicitResult>();
      const answered = new AbortController();
      void watch(call, answered.signal);
      call.reply = (answer) => {
        call.reply = undefined;
        answered.abort("answered");
        resolve(answer);
      };
      call.next.resolve(new AskUser(question, { held: true }));
      return promise;
    },
    close: (): void => closing.abort("closed"),
  };
}
