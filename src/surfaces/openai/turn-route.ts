import type { ServerResponse } from "node:http";
import { asRuntimeError, type RuntimeError } from "../../contract/error.ts";
import type { Delivery, Listener } from "../../service/event-queue.ts";
import { createEventWriter } from "../wire/event-writer.ts";
import { type Answer, jsonAnswer } from "../wire/http-answer.ts";
import type { MountParts } from "../wire/mount.ts";
import type { Once, Outcome } from "../wire/once.ts";
import type { RestRequest } from "../wire/router.ts";
import { openAiFailure, SESSION_HEADER } from "./failure.ts";

/** What the configuration says of these endpoints. */
export interface OpenAiSettings {
  /** What sessions made here may recall. */
  readonly memory: "session" | "project";
  /** The tools of this server's that they are offered where a request names none. */
  readonly tools: "none" | "memory" | "safe" | "workspace" | "full";
}

/** Where a request is answered. */
export interface Place extends MountParts {
  readonly settings: OpenAiSettings;
  readonly once: Once;
}

/** A piece of a stream: with a type it is a named event, and `[DONE]` is sent as it is. */
export interface Frame {
  readonly type?: string;
  readonly data: unknown;
}

/** Tells a turn in the words of an endpoint. */
export interface Encoder {
  /** The session, once its turn has begun. */
  sessionId(): string | undefined;
  hear(delivery: Delivery): readonly Frame[];
  /** The whole answer, and what a stream ends with. */
  end(failure: RuntimeError | undefined): {
    readonly frames: readonly Frame[];
    readonly body: unknown;
    /** Whether whoever does not listen is to be told the failure itself. */
    readonly isFailed: boolean;
    /** What failed, where that is no failure of the turn. */
    readonly failure?: RuntimeError | undefined;
  };
  /** What a stream is that answers a request for the second time. */
  replay(body: unknown): readonly Frame[];
}

interface TurnRequest {
  readonly isStreamed: boolean;
  /** Whether the turn goes on when its client leaves. */
  readonly goesOn: boolean;
  readonly encoder: Encoder;
  run(hearing: { readonly signal: AbortSignal; readonly listener: Listener }): Promise<unknown>;
}

/** What a stream has to tell may wait so long for its reader; then nobody reads it. */
const FRAMES_MAX = 200_000;

/** Runs a turn and answers with it, at its end or as it happens. A client that leaves stops it. */
export async function answerTurn(
  place: Place,
  request: RestRequest,
  response: ServerResponse,
  turn: TurnRequest,
): Promise<Answer | undefined> {
  const { encoder, isStreamed, goesOn } = turn;
  const left = new AbortController();
  const leave = (): void => left.abort("the client has left");
  if (!goesOn) response.once("close", () => !response.writableFinished && leave());
  if (!goesOn && response.destroyed) leave();
  const frames = createFrames(leave);
  const listener: Listener = (delivery) => {
    const told = encoder.hear(delivery);
    if (isStreamed) frames.add(told);
  };
  const work = async (aborted: AbortSignal): Promise<Answer> => {
    const signal = AbortSignal.any([aborted, left.signal]);
    const failure = await failureOf(turn.run({ signal, listener }));
    // What was refused before a turn began has no events, and an answer of its own.
    if (failure !== undefined && encoder.sessionId() === undefined) return openAiFailure(failure);
    const end = encoder.end(failure);
    const { frames: last, body, isFailed } = end;
    if (isStreamed) frames.add(last);
    if (isFailed && !isStreamed) return { ...openAiFailure(end.failure ?? failure), headers: headersOf(encoder) };
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
  const first = await frames.next();
  if (first === undefined) {
    const answer = await answered;
    if (answer.status !== 200) return answer;
    frames.add([...encoder.replay(JSON.parse(String(answer.text))), { data: "[DONE]" }]);
  }
  const writer = createEventWriter({ response, clock: place.clock, headers: headersOf(encoder), giveUp: leave });
  for (let frame = first ?? (await frames.next()); frame !== undefined; frame = await frames.next()) {
    await writer.write(frame);
  }
  await answered.catch(() => {});
  writer.end({ data: "[DONE]" });
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

/** What is to be sent, in its order. */
function createFrames(overflow: () => void) {
  const waiting: Frame[] = [];
  let isEnded = false;
  let wake = (): void => {};
  return {
    add: (frames: readonly Frame[]): void => {
      if (waiting.length + frames.length > FRAMES_MAX) overflow();
      else waiting.push(...frames);
      wake();
    },
    end: (): void => {
      isEnded = true;
      wake();
    },
    /** Undefined when no more will come. */
    next: async (): Promise<Frame | undefined> => {
      while (waiting.length === 0 && !isEnded) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      return waiting.shift();
    },
  };
}
