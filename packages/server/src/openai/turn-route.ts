import { asRuntimeError, type RuntimeError } from "@rkat/core/contract/error";
import type { Delivery, Listener } from "@rkat/core/sessions/event-queue";
import { createEventWriter, type EventWriter } from "../http/event-writer.ts";
import type { HttpResponse } from "../http/exchange.ts";
import { type Answer, jsonAnswer } from "../http/http-answer.ts";
import type { Once, Outcome } from "../http/once.ts";
import type { MountParts, RestRequest } from "../http/router.ts";
import { openAiFailure, SESSION_HEADER } from "./failure.ts";
import type { Retries } from "./retries.ts";

export interface OpenAiSettings {
  readonly memory: "session" | "project";
  /** The tools of this server's that they are offered where a request names none. */
  readonly tools: "none" | "memory" | "safe" | "workspace" | "full";
}

export interface Place extends MountParts {
  readonly settings: OpenAiSettings;
  readonly once: Once;
  readonly retries: Retries;
}

/** A piece of a stream: with a type it is a named event, and `[DONE]` is sent as it is. */
export interface Frame {
  readonly type?: string;
  readonly data: unknown;
}

export interface Encoder {
  /** The session, once its turn has begun. */
  sessionId(): string | undefined;
  encode(delivery: Delivery): readonly Frame[];
  /** The whole answer, and what a stream ends with. */
  end(failure: RuntimeError | undefined): {
    readonly frames: readonly Frame[];
    readonly body: unknown;
    /** Whether a failure without a stream is the answer itself. */
    readonly isFailed: boolean;
    readonly failure?: RuntimeError | undefined;
  };
  /** What a stream is that answers a request for the second time. */
  replay(body: unknown): readonly Frame[];
}

interface TurnRequest {
  readonly isStreamed: boolean;
  /** Whether the turn continues when its client leaves. */
  readonly goesOn: boolean;
  readonly encoder: Encoder;
  readonly frames?: Frames;
  /** `failedIn` is the session where the same request has just failed. */
  run(context: { readonly signal: AbortSignal; readonly listener: Listener }, failedIn?: string): Promise<unknown>;
}

/** Runs a turn and answers with it, at its end or as it happens. A client that leaves stops it. */
export async function answerTurn(
  place: Place,
  request: RestRequest,
  response: HttpResponse,
  turn: TurnRequest,
): Promise<Answer | undefined> {
  const { encoder, isStreamed, goesOn } = turn;
  const left = new AbortController();
  const leave = (): void => left.abort("the client has left");
  if (!goesOn) response.once("close", () => !response.writableFinished && leave());
  if (!goesOn && response.destroyed) leave();
  const frames = turn.frames ?? createFrames();
  const listener: Listener = (delivery) => {
    const reported = encoder.encode(delivery);
    if (isStreamed) frames.add(reported);
  };
  const work = async (aborted: AbortSignal): Promise<Answer> => {
    const signal = AbortSignal.any([aborted, left.signal]);
    const failure = await failureOf(turn.run({ signal, listener }, place.retries.take(request)));
    const session = encoder.sessionId();
    // What was refused before a turn began has no events, and an answer of its own.
    if (failure !== undefined && session === undefined) return openAiFailure(failure);
    if (failure !== undefined && session !== undefined) place.retries.note(request, session);
    const end = encoder.end(failure);
    const { frames: last, body, isFailed } = end;
    if (isStreamed) frames.add(last);
    if (isFailed && !isStreamed) {
      const answer = openAiFailure(end.failure ?? failure);
      return { ...answer, headers: { ...answer.headers, ...headersOf(encoder) } };
    }
    return { ...jsonAnswer(body), headers: headersOf(encoder) };
  };
  const id = request.headers["x-meerkat-request-id"];
  const run = async (): Promise<Outcome> => {
    const answer = await place.turns.run(Array.isArray(id) ? id.join() : id, request.caller, work, openAiFailure);
    return { answer, isFinal: encoder.sessionId() !== undefined };
  };
  const answered = place.once(request, run).finally(frames.end);
  if (!isStreamed) return answered;
  answered.catch(frames.end);
  if ((await frames.at(0)) === undefined) {
    const answer = await answered;
    if (answer.status !== 200) return answer;
    frames.add(encoder.replay(JSON.parse(String(answer.text))));
  }
  const writer = createEventWriter({ response, clock: place.clock, headers: headersOf(encoder), giveUp: leave });
  await writeFrames(frames, 0, writer, left.signal);
  await answered.catch(() => {});
  return undefined;
}

export async function failureOf(work: Promise<unknown>): Promise<RuntimeError | undefined> {
  try {
    await work;
    return undefined;
  } catch (thrown) {
    return asRuntimeError(thrown);
  }
}

function headersOf(encoder: Encoder): Readonly<Record<string, string>> {
  const session = encoder.sessionId();
  return session === undefined ? {} : { [SESSION_HEADER]: session };
}

/** The frames of a turn in order, for any number of readers. */
export interface Frames {
  add(frames: readonly Frame[]): void;
  end(): void;
  /** The frame at a place, when it is there; undefined when none will come. */
  at(place: number): Promise<Frame | undefined>;
}

export function createFrames(): Frames {
  const reported: Frame[] = [];
  let isEnded = false;
  let changed = Promise.withResolvers<void>();
  const wake = (): void => {
    changed.resolve();
    changed = Promise.withResolvers();
  };
  return {
    add: (frames) => {
      reported.push(...frames);
      wake();
    },
    end: () => {
      isEnded = true;
      wake();
    },
    at: async (place) => {
      while (reported[place] === undefined && !isEnded) await changed.promise;
      return reported[place];
    },
  };
}

/** Writes frames from a place on, until they end or the reader leaves. */
export async function writeFrames(frames: Frames, from: number, writer: EventWriter, left: AbortSignal): Promise<void> {
  let place = from;
  for (let frame = await frames.at(place); frame !== undefined && !left.aborted; frame = await frames.at(place)) {
    await writer.write(frame);
    place += 1;
  }
  writer.end({ data: "[DONE]" });
}
