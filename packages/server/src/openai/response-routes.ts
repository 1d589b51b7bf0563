import { invalid, RuntimeError } from "@rkat/core/contract/error";
import { isRecord } from "@rkat/core/contract/json";
import { CreateResponse } from "@rkat/core/contract/wire/openai";
import { parseParams } from "@rkat/core/contract/wire/requests";
import type { CallContext } from "@rkat/core/runtime/dispatch";
import { fieldsOf } from "../http/body.ts";
import type { CallerRuntime } from "../http/calls.ts";
import { furtherTurn } from "../http/calls.ts";
import { createEventWriter } from "../http/event-writer.ts";
import type { HttpResponse } from "../http/exchange.ts";
import { type Answer, jsonAnswer } from "../http/http-answer.ts";
import type { RestRequest, Route } from "../http/router.ts";
import { schemaOf } from "./content.ts";
import { openAiFailure, SESSION_HEADER } from "./failure.ts";
import {
  conversationId,
  notThere,
  parseCompactedId,
  parseConversationId,
  parseResponseId,
  type ResponsePlace,
  responseId,
} from "./ids.ts";
import { pageIn } from "./item-page.ts";
import { readResponse, withReferenced } from "./read-response.ts";
import { type Echo, echoOf } from "./response-echo.ts";
import { createResponseEncoder } from "./response-encoder.ts";
import { type Decoded, decodeInput, itemsOf } from "./response-input.ts";
import { messagesUpTo, readOpen, readTurn, turnEnd } from "./response-log.ts";
import { retried } from "./retries.ts";
import { type Asks, callOf, clientTools, continuation, creation } from "./settings.ts";
import { answerTurn, createFrames, type Frames, failureOf, type Place, writeFrames } from "./turn-route.ts";

/** The most requests whose fields are remembered for their responses. */
const ECHOES_MAX = 1_024;
/** The number of responses whose stream a client can resume. */
const RESUMABLE_MAX = 64;

function keepNewest<T>(kept: Map<string, T>, id: string, value: T, max: number): void {
  kept.set(id, value);
  const [oldest] = kept.keys();
  if (kept.size > max && oldest !== undefined) kept.delete(oldest);
}

/** How long an interrupted turn may take to end; then it is answered as it is. */
const CANCEL_MS_MAX = 10_000;

/** `/v1/responses`: a response is a turn, and its id says of which session. */
export function createResponseRoutes(place: Place): readonly Route[] {
  const echoes = new Map<string, Echo>();
  const remember = (id: string, echo: Echo): void => keepNewest(echoes, id, echo, ECHOES_MAX);
  const parts: Parts = { ...place, remember, echoOf: (id) => echoes.get(id), reported: new Map() };
  const at = (request: RestRequest): ResponsePlace => parseResponseId(request.params.response_id ?? "");
  return [
    {
      method: "POST",
      path: "/v1/responses",
      scope: "run",
      operation: "createSession",
      stream: (request, response) => create(parts, request, response),
    },
    {
      method: "GET",
      path: "/v1/responses/{response_id}",
      scope: "read",
      operation: "listEvents",
      stream: (request, response) =>
        isStreamAsked(request.query)
          ? streamAgain(parts, request, response, at(request))
          : streamResponse(parts, request, at(request)),
    },
    {
      method: "DELETE",
      path: "/v1/responses/{response_id}",
      scope: "run",
      operation: "archiveSession",
      serve: async (request) => {
        const { session_id } = await requireResponse(request, at(request));
        await request.runtime.dispatch("archiveSession", { session_id });
        return jsonAnswer({ id: responseId(at(request)), object: "response", deleted: true });
      },
    },
    {
      method: "POST",
      path: "/v1/responses/{response_id}/cancel",
      scope: "run",
      operation: "interruptTurn",
      serve: async (request) => {
        const where = await requireResponse(request, at(request));
        const { endSeq } = await readTurn(request.runtime, where);
        if (endSeq === undefined) {
          const { session_id } = where;
          await request.runtime.dispatch("interruptTurn", { session_id });
          await turnEnd(request.runtime, where, AbortSignal.timeout(CANCEL_MS_MAX));
        }
        return streamResponse(parts, request, where);
      },
    },
    {
      method: "GET",
      path: "/v1/responses/{response_id}/input_items",
      scope: "read",
      operation: "readHistory",
      serve: async (request) => {
        const where = await requireResponse(request, at(request));
        const { endSeq = Number.MAX_SAFE_INTEGER } = await readTurn(request.runtime, where);
        const messages = await messagesUpTo(request.runtime, where.session_id, endSeq);
        const answer = messages.findIndex(({ role, seq }) => role === "block_assistant" && seq > where.seq);
        return jsonAnswer(pageIn(itemsOf(answer < 0 ? messages : messages.slice(0, answer)), request.query));
      },
    },
  ];
}

interface Parts extends Place {
  remember(id: string, echo: Echo): void;
  echoOf(id: string): Echo | undefined;
  /** The streams of responses, with the numbers that a client knows. */
  readonly reported: Map<string, Frames>;
}

async function create(parts: Parts, request: RestRequest, response: HttpResponse): Promise<Answer | undefined> {
  const asked = fromCompaction(parseParams(CreateResponse, fieldsOf(request.body)));
  const decoded = decodeInput(await withReferenced(request.runtime, asked));
  const from = await originOf(request.runtime, asked, decoded);
  const isKept = asked.store !== false;
  const background = asked.background === true;
  if (background && !isKept) throw invalid("background: what is not stored cannot be asked for later; leave store out");
  const asks = asksOf(asked, decoded);
  const first = callOf(asks, request, parts);
  const names = new Set(clientTools(asked.tools).map(({ name }) => name));
  const echo = echoOf(asked, goneOnFrom(from));
  const isStreamed = asked.stream === true;
  const frames = createFrames();
  const began = (id: string): void => {
    parts.remember(id, echo);
    if (isStreamed || background) keepNewest(parts.reported, id, frames, RESUMABLE_MAX);
  };
  const encoder = createResponseEncoder({
    echo,
    isClientCall: ({ name }) => names.has(name),
    wantsJson: asks.schema !== undefined,
    ...(isKept ? { began } : {}),
  });
  const run = async (call: CallContext, failedIn?: string): Promise<unknown> => {
    const traceparent = request.headers.traceparent?.toString();
    try {
      const wanted = { asks, decoded, from };
      const context = { ...call, ...first, traceparent };
      if (failedIn !== undefined) {
        const there = { ...wanted, from: { kind: "conversation" as const, session_id: failedIn, model: "" } };
        const again = await retried(runTurn(parts, request, there, { ...context, isRetry: true }));
        if (again !== undefined) return again;
      }
      return await runTurn(parts, request, wanted, context);
    } finally {
      const session_id = encoder.sessionId();
      if (!isKept && session_id !== undefined) await request.runtime.dispatch("archiveSession", { session_id });
    }
  };
  if (!background || isStreamed)
    return answerTurn(parts, request, response, { isStreamed, goesOn: background, encoder, frames, run });
  return parts.once(request, () => runInBackground(parts, request, { encoder, frames }, run));
}

/** An input with a compaction in it continues the response that was compacted, which includes what stands before. */
function fromCompaction(asked: CreateResponse): CreateResponse {
  const { input = [], previous_response_id, conversation } = asked;
  const at = input.findLastIndex(({ type }) => type === "compaction");
  const item = input[at];
  if (item?.type !== "compaction") return asked;
  if ((previous_response_id ?? conversation ?? undefined) !== undefined) {
    throw invalid(
      `input[${at}]: a compaction names the response to continue; leave previous_response_id and conversation out`,
    );
  }
  return { ...asked, input: input.slice(at + 1), previous_response_id: item.encrypted_content };
}

/** Answers once the turn has begun; the client polls it by id. */
async function runInBackground(
  parts: Parts,
  request: RestRequest,
  { encoder, frames }: { readonly encoder: ReturnType<typeof createResponseEncoder>; readonly frames: Frames },
  run: (call: CallContext) => Promise<unknown>,
) {
  const { promise: begun, resolve } = Promise.withResolvers<Answer>();
  const listener: CallContext["listener"] = (delivery) => {
    frames.add(encoder.encode(delivery));
    const session = encoder.sessionId();
    if (session === undefined) return;
    resolve({ ...jsonAnswer(encoder.body()), headers: { [SESSION_HEADER]: session } });
  };
  const work = async (signal: AbortSignal): Promise<Answer> => {
    const failure = await failureOf(run({ signal, listener }));
    frames.add(encoder.end(failure).frames);
    frames.end();
    return failure === undefined ? jsonAnswer({}) : openAiFailure(failure);
  };
  void parts.turns.run(undefined, request.caller, work, openAiFailure).then(resolve);
  const answer = await begun;
  return { answer, isFinal: answer.status === 200 };
}

type Origin =
  | { readonly kind: "nothing" }
  | { readonly kind: "conversation"; readonly session_id: string; readonly model: string }
  | { readonly kind: "response"; readonly place: ResponsePlace; readonly endSeq: number; readonly model: string };

function goneOnFrom(from: Origin) {
  return {
    previous_response_id: from.kind === "response" ? responseId(from.place) : null,
    conversation: from.kind === "conversation" ? { id: conversationId(from.session_id) } : null,
    model: from.kind === "nothing" ? undefined : from.model,
  };
}

async function originOf(runtime: CallerRuntime, asked: CreateResponse, decoded: Decoded): Promise<Origin> {
  const { previous_response_id: previous, conversation } = asked;
  const isNew = (previous ?? undefined) === undefined && (conversation ?? undefined) === undefined;
  const isSilent = decoded.results.length === 0 && textless(decoded);
  if (isSilent) throw invalid("input: write what is new: a text, a message of the user's or a function_call_output");
  if (isNew) return { kind: "nothing" };
  if (typeof previous === "string" && conversation !== undefined && conversation !== null) {
    throw invalid("conversation: give it or previous_response_id, not both");
  }
  if (decoded.history.length > 0) throw invalid("input: write only what is new; what was said before is known");
  if (typeof previous === "string") {
    const compacted = parseCompactedId(previous);
    const place = compacted ?? parseResponseId(previous);
    const { model } = await readOpen(runtime, place.session_id, notThere("response", previous));
    if (compacted !== undefined) return { kind: "response", place, endSeq: place.seq, model };
    const { endSeq } = await readTurn(runtime, place);
    if (endSeq === undefined)
      throw new RuntimeError("SESSION_BUSY", `response ${previous} is still being made; wait for it`);
    return { kind: "response", place, endSeq, model };
  }
  const id = typeof conversation === "string" ? conversation : (conversation?.id ?? "");
  const session_id = parseConversationId(id);
  const { model } = await readOpen(runtime, session_id, notThere("conversation", id));
  return { kind: "conversation", session_id, model };
}

function textless({ prompt }: Decoded): boolean {
  return typeof prompt === "string" ? prompt.trim() === "" : prompt.length === 0;
}

interface Wanted {
  readonly asks: Asks;
  readonly decoded: Decoded;
  readonly from: Origin;
}

async function runTurn(parts: Parts, request: RestRequest, wanted: Wanted, call: CallContext): Promise<unknown> {
  const { dispatch } = request.runtime;
  const { asks, decoded, from } = wanted;
  const { prompt, history, results, notes } = decoded;
  const additional = notes.length === 0 ? {} : { additional_instructions: notes };
  const given = results.length === 0 ? {} : { tool_results: results };
  if (from.kind === "nothing") {
    const made = { ...creation(asks, request, parts), ...(history.length === 0 ? {} : { history }) };
    if (results.length === 0) return dispatch("createSession", { ...made, ...additional, prompt }, call);
    const { session_id } = await dispatch("createSession", { ...made, initial_turn: "deferred" });
    return furtherTurn(dispatch, { session_id, prompt, ...given, ...additional }, call);
  }
  const further = { prompt, ...given, ...additional, ...continuation(asks, request, parts) };
  if (from.kind === "conversation") return furtherTurn(dispatch, { ...further, session_id: from.session_id }, call);
  const { session_id } = from.place;
  try {
    return await furtherTurn(dispatch, { ...further, session_id, after_seq: from.endSeq }, call);
  } catch (thrown) {
    if (!isOvertaken(thrown)) throw thrown;
  }
  // From an older response another conversation begins, with what was said until then.
  const { length } = await messagesUpTo(request.runtime, session_id, from.endSeq);
  const fork = await dispatch("forkSession", { session_id, message_index: length });
  return furtherTurn(dispatch, { ...further, session_id: fork.session_id }, call);
}

function isOvertaken(thrown: unknown): boolean {
  return thrown instanceof RuntimeError && isRecord(thrown.details) && "said_seq" in thrown.details;
}

function asksOf(asked: CreateResponse, { system }: Decoded): Asks {
  const { model, max_output_tokens, text, temperature, top_p, reasoning, tools, tool_choice, parallel_tool_calls } =
    asked;
  const instructions = [asked.instructions ?? "", ...system].filter((part) => part.trim() !== "");
  const params = { temperature, top_p, reasoning_effort: reasoning?.effort };
  return {
    model,
    instructions: instructions.length === 0 ? undefined : instructions.join("\n\n"),
    maxTokens: max_output_tokens ?? undefined,
    schema: schemaOf(text?.format),
    params: Object.fromEntries(Object.entries(params).filter(([, value]) => value !== undefined && value !== null)),
    tools,
    metadata: asked.metadata,
    toolChoice: tool_choice,
    isParallel: parallel_tool_calls,
  };
}

async function requireResponse({ runtime }: RestRequest, place: ResponsePlace): Promise<ResponsePlace> {
  await readOpen(runtime, place.session_id, notThere("response", responseId(place)));
  return place;
}

async function streamResponse(parts: Parts, request: RestRequest, place: ResponsePlace): Promise<Answer> {
  const { body } = await readResponse(request.runtime, place, parts.echoOf(responseId(place)));
  return { ...jsonAnswer(body), headers: { [SESSION_HEADER]: place.session_id } };
}

function isStreamAsked(query: URLSearchParams): boolean {
  const stream = query.get("stream") ?? "false";
  if (stream !== "true" && stream !== "false") throw invalid("stream: write true or false");
  if (stream === "false" && query.has("starting_after")) throw invalid("starting_after: write stream=true besides");
  return stream === "true";
}

/** Streams a response once more: as it was first streamed where that is kept, else from the log when it has ended. */
async function streamAgain(
  parts: Parts,
  request: RestRequest,
  response: HttpResponse,
  place: ResponsePlace,
): Promise<undefined> {
  const after = request.query.get("starting_after");
  if (after !== null && !/^\d{1,9}$/.test(after))
    throw invalid("starting_after: write the sequence_number of an event");
  const { runtime } = request;
  await readTurn(runtime, await requireResponse(request, place));
  const id = responseId(place);
  const left = new AbortController();
  const leave = (): void => left.abort("the client has left");
  response.once("close", leave);
  const kept = parts.reported.get(id);
  if (kept === undefined && after !== null) {
    throw invalid(
      "starting_after: the events of this response are not kept any more; leave it out to have all of them",
    );
  }
  const headers = { [SESSION_HEADER]: place.session_id };
  const writer = createEventWriter({ response, clock: parts.clock, headers, giveUp: leave });
  const frames = kept ?? createFrames();
  if (kept === undefined) {
    await turnEnd(runtime, place, left.signal);
    frames.add((await readResponse(runtime, place, parts.echoOf(id))).frames);
    frames.end();
  }
  await writeFrames(frames, after === null ? 0 : Number(after) + 1, writer, left.signal);
  return undefined;
}
