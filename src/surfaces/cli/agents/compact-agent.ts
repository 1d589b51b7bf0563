import type { AgentCompacted } from "../../../contract/agent/agent.ts";
import { ERRORS, RuntimeError } from "../../../contract/error.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { writeError } from "../failure.ts";
import { writeJson } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { showAgentStatus } from "./agent-status.ts";

interface Wish {
  readonly agent: string;
  readonly json?: boolean;
  readonly signal: AbortSignal;
}

/** Compacts an agent's memories now and says what came of it. */
export async function compactAgent(
  { io, exitWith }: Invocation,
  opened: Opened,
  { agent, json, signal }: Wish,
): Promise<void> {
  const result = await unlessAborted(opened.runtime.dispatch("compactAgent", { agent }, { signal }), signal);
  const failure = await failureOf(opened, agent, result);
  if (json) {
    writeJson(io, result);
    if (failure === undefined) return;
    writeError(io, failure);
    return exitWith(ERRORS[failure.code].exit);
  }
  if (failure !== undefined) throw failure;
  if (!result.compacted) return io.stdout.write(`Not compacted: ${withoutControls(result.reason ?? "")}.\n`);
  io.stdout.write("Compacted.\n");
  await showAgentStatus(io, opened, { agent });
}

/** Whoever stops waiting goes on; the compaction ends behind them. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const stop = (): void => aborted.reject(new RuntimeError("REQUEST_CANCELLED", "the compaction was not waited for"));
  signal.addEventListener("abort", stop);
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** The operation answers why nothing was compacted; only a failure is also what the status tells of. */
async function failureOf(
  { runtime }: Opened,
  agent: string,
  { compacted, reason }: AgentCompacted,
): Promise<RuntimeError | undefined> {
  if (compacted || reason === undefined) return undefined;
  const { last_error } = await runtime.dispatch("readAgentStatus", { agent });
  if (last_error !== reason) return undefined;
  return new RuntimeError("AGENT_ERROR", `the compaction failed, and both summaries are as they were: ${reason}`);
}
