import { RuntimeError } from "../../../contract/error.ts";
import { showAgentStatus } from "../agents/agent-status.ts";
import { compactAgent } from "../agents/compact-agent.ts";
import type { Chat } from "./chat.ts";

interface AgentCommand {
  readonly meaning: string;
  run(chat: Chat, agent: string): Promise<void>;
}

/** What a chat can do about what its agent remembers. */
const AGENT_COMMANDS: Readonly<Record<string, AgentCommand>> = {
  "@memory-status": {
    meaning: "with --agent: show what the agent remembers",
    run: ({ invocation, opened }, agent) => showAgentStatus(invocation.io, opened, { agent }),
  },
  "@compact-memories": {
    meaning: "with --agent: summarise the agent's older memories now",
    run: ({ invocation, opened, source }, agent) =>
      source.during((signal) => compactAgent(invocation, opened, { agent, signal })),
  },
};

/** The commands and what they do. */
export function agentCommandRows(): readonly (readonly [name: string, meaning: string])[] {
  return Object.entries(AGENT_COMMANDS).map(([name, { meaning }]) => [name, meaning]);
}

/** Does what such a command says; resolves with false when the text is a prompt, which may begin with any `@word`. */
export async function runAgentCommand(chat: Chat, text: string): Promise<boolean> {
  const name = text.trim();
  const command = Object.hasOwn(AGENT_COMMANDS, name) ? AGENT_COMMANDS[name] : undefined;
  if (command === undefined) return false;
  if (chat.agent === undefined) {
    const message = `${name} is about what an agent remembers; rkat chat --agent NAME talks to one`;
    throw new RuntimeError("INVALID_PARAMS", message);
  }
  await command.run(chat, chat.agent);
  return true;
}
