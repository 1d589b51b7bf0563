import { describe, expect, it } from "vitest";
import type { Entry, EntryBody } from "../contract/entry.ts";
import { readCheckpoint, restoreState, writeCheckpoint } from "./checkpoint.ts";
import { applyAlone, beginState } from "./session-state.ts";

const ENDED_MAX = 100;
const hash = (text: string): string => String(text.length);
const report = { exit_code: 0, stdout: "quince", stderr: "", timed_out: false, duration_secs: 1 };

function bodiesOf(count: number): readonly EntryBody[] {
  const place = { host: "here", boot: "b", pid: 7, started: "9" };
  const started = (at: number): EntryBody => {
    return { kind: "job_started", job_id: `job-${at}`, command: "quince", timeout_ms: 1_000, ...place };
  };
  const ended = (at: number): EntryBody => {
    return { kind: "job_ended", job_id: `job-${at}`, display_name: "quince", status: "completed", report };
  };
  const jobs = Array.from({ length: count }, (_, at) => [started(at), ended(at)]);
  return [...jobs.flat(), started(count), ended(count - 1)];
}

describe("the jobs of a session", () => {
  it("[P3] [F4] are kept with its state: the running ones and the last that ended, without what they said", () => {
    const settings = { model: "m", provider: "p", tools: { builtins: "none", shell: true, memory: false } } as const;
    // `as`: the settings that a fold of jobs reads.
    const first = { kind: "session_created", settings } as unknown as EntryBody;
    const bodies = [first, ...bodiesOf(ENDED_MAX + 20)];
    const entries = bodies.map((body, at): Entry => ({ seq: at + 1, span: 1, timestamp_ms: at, body }));
    const state = beginState("s", entries);
    for (const entry of entries) applyAlone(state, entry);
    expect(state.jobs.map(({ status }) => status)).toEqual([...Array(ENDED_MAX).fill("completed"), "running"]);
    expect(state.jobs[0]).toEqual({
      jobId: "job-20",
      startedAtMs: 41,
      timeoutMs: 1_000,
      seq: 42,
      endSeq: 43,
      status: "completed",
    });
    const text = writeCheckpoint(state, hash);
    expect(text).not.toContain("quince");
    const read = readCheckpoint(text, "s", hash);
    const restored = read && restoreState(read, (seq) => entries[seq - 1], hash);
    expect(restored?.jobs).toEqual(state.jobs);
  });
});
