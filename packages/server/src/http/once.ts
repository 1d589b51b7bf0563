import { createHash } from "node:crypto";
import type { Caller } from "@rkat/core/contract/caller";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import type { Answer } from "./http-answer.ts";
import type { RestRequest } from "./router.ts";

/** Runs a request once for each `Idempotency-Key`: the same request again is given the first answer. */
export type Once = (request: RestRequest, work: () => Promise<Outcome>) => Promise<Answer>;

/** An answer, and whether something has happened that a repetition must not do again. */
export interface Outcome {
  readonly answer: Answer;
  readonly isFinal: boolean;
}

const KEYS_MAX = 1_024;
const ANSWERS_CHARS_MAX = 16 * 1_024 * 1_024;
const KEY = /^[\x21-\x7e]{1,255}$/;

interface Kept {
  readonly fingerprint: string;
  readonly answer: Promise<Answer>;
  /** Undefined while the request runs: such an entry is never dropped. */
  chars: number | undefined;
}

/** Answers are kept per caller: no other caller gets them, whatever key it sends. */
export function createOnce(): Once {
  const onces = new WeakMap<Caller, Once>();
  return (request, work) => {
    const own = onces.get(request.caller) ?? createOwnOnce();
    onces.set(request.caller, own);
    return own(request, work);
  };
}

/** Remembers as long as the process lives, and the newest answers only. */
function createOwnOnce(): Once {
  const kept = new Map<string, Kept>();
  let heldChars = 0;

  const forget = (key: string): void => {
    heldChars -= kept.get(key)?.chars ?? 0;
    kept.delete(key);
  };
  const makeRoom = (): void => {
    for (const [key, { chars }] of kept) {
      if (kept.size <= KEYS_MAX && heldChars <= ANSWERS_CHARS_MAX) return;
      if (chars !== undefined) forget(key);
    }
  };
  const begin = (key: string, fingerprint: string, work: () => Promise<Outcome>): Promise<Answer> => {
    const outcome = work();
    const entry: Kept = { fingerprint, answer: outcome.then(({ answer }) => answer), chars: undefined };
    kept.set(key, entry);
    const settle = ({ answer, isFinal }: Outcome): void => {
      if (!isFinal) {
        forget(key);
        return;
      }
      entry.chars = answer.text.length;
      heldChars += entry.chars;
      makeRoom();
    };
    outcome.then(settle, () => forget(key));
    return entry.answer;
  };
  return async (request, work) => {
    const key = request.headers["idempotency-key"];
    if (key === undefined) return (await work()).answer;
    if (typeof key !== "string" || !KEY.test(key)) throw invalid("Idempotency-Key: write 1 to 255 visible characters");
    const fingerprint = fingerprintOf(request);
    const first = kept.get(key);
    if (first === undefined) return begin(key, fingerprint, work);
    if (first.fingerprint !== fingerprint) {
      throw new RuntimeError("DUPLICATE_INPUT", `the Idempotency-Key ${key} was used for another request`);
    }
    const answer = await first.answer;
    return { ...answer, headers: { ...answer.headers, "idempotent-replayed": "true" } };
  };
}

/** A request by what it asks, where. */
export function fingerprintOf({ path, body }: RestRequest): string {
  return createHash("sha256").update(`${path}\n${body.text}`).digest("base64");
}
