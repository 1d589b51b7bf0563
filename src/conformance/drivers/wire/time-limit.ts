import { RuntimeError } from "../../../contract/error.ts";

/** How long one answer may take before it is given up; nothing in a scenario waits for more than milliseconds. */
const ANSWER_MS_MAX = 30_000;

/** What the work comes to, unless that takes too long: a server that never answers must not be waited for. */
export async function withinTime<T>(work: Promise<T>, who: string): Promise<T> {
  const late = Promise.withResolvers<never>();
  const message = `${who} did not answer in ${ANSWER_MS_MAX / 1_000} s`;
  const timer = setTimeout(() => late.reject(new RuntimeError("AGENT_ERROR", message)), ANSWER_MS_MAX);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
