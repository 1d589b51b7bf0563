import type { SessionJobs } from "@rkat/core/ports/jobs";
import type { ToolCallContext } from "@rkat/core/ports/tool";

/** The context of a call outside of a turn: its steps run and are not recorded. */
export function toolContext(more: Partial<ToolCallContext> = {}): ToolCallContext {
  const step: ToolCallContext["step"] = async (_name, run) => run();
  const signal = new AbortController().signal;
  return { sessionId: "s", toolUseId: "t", signal, shellEnv: {}, effectId: "s:1:t", step, ...more };
}

const refuse = (): Promise<never> => Promise.reject(new Error("there are no background jobs here"));

/** For shell tools outside of sessions. */
export const NO_JOBS = (): SessionJobs => ({ start: refuse, list: refuse, report: refuse, cancel: refuse });
