import { Argument, InvalidArgumentError } from "commander";
import { AgentName } from "../../../contract/agent/agent.ts";

/** Reads an agent's name. */
export function agentName(text: string): string {
  const { data, error } = AgentName.safeParse(text);
  if (data !== undefined) return data;
  const sentence = error?.issues[0]?.message ?? "";
  throw new InvalidArgumentError(`${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}.`);
}

/** The agent that a command is about. */
export function nameArgument(): Argument {
  return new Argument("<name>").argParser(agentName);
}

/** Who writes a name that was never used may have meant another. */
export function strangerText(agent: string): string {
  return `${agent} remembers nothing yet; rkat agent list shows who does.`;
}
