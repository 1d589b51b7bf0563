import type { RunResult } from "../../../contract/session.ts";
import { requireCapability } from "../../../service/dispatch.ts";
import type { Opened } from "../open-runtime.ts";
import type { RunFlags } from "../run/run-flags.ts";

/** The agent that a chat is with: it begins with what it remembers, and remembers what is said. */
export interface AgentTalk {
  readonly name: string;
  /** The flags of a new session, whose system prompt is what the agent is shown of its life. */
  introduce(flags: RunFlags): Promise<RunFlags>;
  /** Keeps a turn that has ended as memories: what the user said, and what the agent answered. */
  keep(prompt: string, result: RunResult): Promise<void>;
}

export function createAgentTalk({ runtime, config }: Opened, name: string): AgentTalk {
  // Before anybody has typed a prompt, not after.
  requireCapability(new Set(config.features), "session-store");
  const agent = name;
  return {
    name,
    introduce: async (flags) => {
      const { prompt } = await runtime.dispatch("readAgentContext", { agent });
      const own = flags.system ?? config.agent.system_prompt ?? "";
      return { ...flags, system: [own, prompt].filter((part) => part.trim() !== "").join("\n\n") };
    },
    keep: async (prompt, result) => {
      const { session_id } = result;
      const said = [
        ["User", prompt],
        [name, answerOf(result)],
      ] as const;
      for (const [speaker, text] of said) {
        if (text.trim() === "") continue;
        await runtime.dispatch("remember", { agent, content: `${speaker}: ${text.trim()}`, metadata: { session_id } });
      }
    },
  };
}

function answerOf({ text, structured_output }: RunResult): string {
  return structured_output === undefined ? text : JSON.stringify(structured_output);
}
