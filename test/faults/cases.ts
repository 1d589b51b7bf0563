import type { ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";

/** A case that takes longer hangs: a death like any other. */
const CASE_MS_MAX = 120_000;

export interface Reported<Case, Outcome> {
  readonly outcomes: readonly Outcome[];
  /** Cases whose process ended or hung, with its last words. */
  readonly deaths: readonly { readonly of: Case | undefined; readonly words: string }[];
}

/** Has a process go through cases, and another through those left when it dies. A line a case is what became of it. */
export async function describeOutcomes<Case, Outcome>(
  cases: readonly Case[],
  start: (left: readonly Case[]) => ChildProcess,
): Promise<Reported<Case, Outcome>> {
  const outcomes: Outcome[] = [];
  const deaths: { of: Case | undefined; words: string }[] = [];
  while (outcomes.length + deaths.length < cases.length) {
    const left = cases.slice(outcomes.length + deaths.length);
    const before = outcomes.length;
    const child = start(left);
    let words = "";
    const hang = setTimeout(() => child.kill("SIGKILL"), CASE_MS_MAX);
    child.stderr?.on("data", (chunk) => {
      words = `${words}${chunk}`.slice(-4_000);
    });
    const ended = new Promise<string>((resolve) =>
      child.on("close", (code, signal) => resolve(code === 0 ? "" : `${signal ?? `status ${code}`}: ${words}`)),
    );
    if (child.stdout === null) throw new Error("the process has no output");
    for await (const line of createInterface({ input: child.stdout })) {
      hang.refresh();
      outcomes.push(JSON.parse(line) as Outcome); // What the process of these cases writes.
    }
    const death = await ended;
    clearTimeout(hang);
    const of = left[outcomes.length - before];
    if (death !== "") deaths.push({ of, words: death });
    else if (of !== undefined) deaths.push({ of, words: `it ended before its time: ${words}` });
  }
  return { outcomes, deaths };
}
