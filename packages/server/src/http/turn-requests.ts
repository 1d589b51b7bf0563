import type { Caller } from "@rkat/core/contract/caller";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import { ownerOf } from "./callers.ts";
import { CANCELLED_BY_CLIENT } from "./calls.ts";
import { type Answer, type AnswerFailure, busyAnswer, errorAnswer, jsonAnswer } from "./http-answer.ts";

/** The requests that run a turn, by the name their client gave them. */
export interface TurnRequests {
  /** Runs a request's work; one without an id cannot be cancelled. It does not throw. */
  run(
    id: string | undefined,
    caller: Caller,
    work: (signal: AbortSignal) => Promise<Answer>,
    answerFailure?: AnswerFailure,
  ): Promise<Answer>;
  /** Interrupts what a request of the caller's runs, and says whether that came in time. */
  cancel(id: string, caller: Caller): Promise<Answer>;
}

const TURNS_MAX = 256;
/** How many ids of ended requests are known, so that a late cancel can be answered. */
const ENDED_IDS_MAX = 1_024;
const ID = /^[\x21-\x7e]{1,200}$/;

interface Running {
  readonly aborting: AbortController;
  readonly answered: Promise<Answer>;
}

export function createTurnRequests(): TurnRequests {
  const running = new Set<Promise<Answer>>();
  const byId = new Map<string, Running>();
  const ended = new Set<string>();

  const end = (id: string): void => {
    byId.delete(id);
    ended.delete(id);
    ended.add(id);
    const [oldest] = ended;
    if (ended.size > ENDED_IDS_MAX && oldest !== undefined) ended.delete(oldest);
  };
  const start = (work: (signal: AbortSignal) => Promise<Answer>, answerFailure: AnswerFailure): Running => {
    const aborting = new AbortController();
    const answered = work(aborting.signal).catch((thrown: unknown) => answerFailure(thrown));
    running.add(answered);
    void answered.then(() => running.delete(answered));
    return { aborting, answered };
  };
  return {
    run: async (given, caller, work, answerFailure = errorAnswer) => {
      if (given !== undefined && !ID.test(given)) {
        throw invalid("X-Meerkat-Request-Id: write 1 to 200 visible characters");
      }
      const id = given && idOf(given, caller);
      if (id !== undefined && byId.has(id)) {
        throw new RuntimeError("DUPLICATE_REQUEST_ID", `a request with the id ${given} is running; choose another`);
      }
      if (running.size >= TURNS_MAX) {
        return busyAnswer(`this server runs ${TURNS_MAX} turns, its limit; wait for one`, answerFailure);
      }
      const turn = start(work, answerFailure);
      if (id === undefined) return turn.answered;
      byId.set(id, turn);
      try {
        return await turn.answered;
      } finally {
        end(id);
      }
    },
    cancel: async (id, caller) => {
      const turn = byId.get(idOf(id, caller));
      if (turn === undefined && !ended.has(idOf(id, caller))) {
        const message = `no request with the id ${id} is known; it is given with X-Meerkat-Request-Id`;
        return errorAnswer(new RuntimeError("METHOD_NOT_FOUND", message));
      }
      turn?.aborting.abort(CANCELLED_BY_CLIENT);
      // What had succeeded by then stays a success, so only its answer tells whether this came in time.
      const answer = await turn?.answered;
      if (answer?.status === CANCELLED_STATUS) return jsonAnswer({ request_id: id, cancelled: true });
      return jsonAnswer({ request_id: id, cancelled: false, reason: "already_terminal" });
    },
  };
}

const CANCELLED_STATUS = 499;

/** Two callers may give their requests the same name. */
function idOf(id: string, caller: Caller): string {
  return `${ownerOf(caller)} ${id}`;
}
