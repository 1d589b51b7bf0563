import { RuntimeError } from "@rkat/core/contract/error";
import { print } from "../command-row.ts";
import { compactAgent } from "../commands/agent-changes.ts";
import { agentStatusLines, strangerText } from "../commands/agent-views.ts";
import { agentsHere } from "../commands/overview.ts";
import { ageSince, alignColumns, counted, createPaint, oneLine } from "../io.ts";
import { type Chat, choose, printNote, type SlashCommand } from "./conversation.ts";

/** The slash command that chooses an agent. */
export const AGENTS_COMMANDS: Readonly<Record<string, SlashCommand>> = {
  agents: {
    takes: "[NAME]",
    meaning: "talk to an agent with memories, from a list or by name; also lists the sub-agents",
    candidates: async ({ opened }) => {
      const { agents } = await opened.runtime.dispatch("listAgents", {});
      return agents.map(({ agent, count }) => ({ text: agent, note: counted(count, "memory") }));
    },
    run: async (chat, rest) => {
      const name = rest === "" ? await chooseAgent(chat) : rest;
      if (name === undefined) return false;
      const { count } = await chat.opened.runtime.dispatch("readAgentStatus", { agent: name });
      chat.conversation.talkTo(name);
      const known = count === 0 ? strangerText(name) : `${name} has ${counted(count, "memory")}.`;
      return printNote(chat, `The next prompt starts a session with ${name}. ${known}`);
    },
  },
};

const DESCRIPTION_CHARS_MAX = 80;

async function chooseAgent(chat: Chat): Promise<string | undefined> {
  const { agents: helpers } = await agentsHere(chat.invocation);
  const rows = helpers.map(({ name, description }) => ["", name, oneLine(description, DESCRIPTION_CHARS_MAX)]);
  chat.invocation.io.stdout.write(`Sub-agents:\n${alignColumns(rows).join("\n")}\n`);
  const { agents } = await chat.opened.runtime.dispatch("listAgents", {});
  if (agents.length === 0) {
    printNote(chat, "No agent has memories yet; /agents NAME starts one.");
    return undefined;
  }
  const choices = agents.map(({ agent, count, updated_at }) => {
    return { value: agent, label: agent, note: `${counted(count, "memory")}, ${ageSince(updated_at)}` };
  });
  return choose(chat, { title: "Choose an agent", choices }, "/agents NAME chooses one.");
}

interface AgentCommand {
  readonly meaning: string;
  run(chat: Chat, agent: string): Promise<void>;
}

/** The chat commands on its agent's memories. */
const AGENT_COMMANDS: Readonly<Record<string, AgentCommand>> = {
  "@memory-status": {
    meaning: "with --agent: show what the agent remembers",
    run: async ({ invocation: { io }, opened }, agent) => {
      const status = await opened.runtime.dispatch("readAgentStatus", { agent });
      print(io, await agentStatusLines(status, { opened, paint: createPaint(io.stdout, io.env) }));
    },
  },
  "@compact-memories": {
    meaning: "with --agent: summarise the agent's older memories now",
    run: ({ invocation, opened, source }, agent) => {
      const { io } = invocation;
      const call = { invocation, io, opened, paint: createPaint(io.stdout, io.env) };
      return source.during((signal) => compactAgent(call, { agent, signal }));
    },
  },
};

/** Runs such a command; resolves with false when the text is a prompt, which may begin with any `@word`. */
export async function runAgentCommand(chat: Chat, text: string): Promise<boolean> {
  const name = text.trim();
  const command = Object.hasOwn(AGENT_COMMANDS, name) ? AGENT_COMMANDS[name] : undefined;
  if (command === undefined) return false;
  const { agent } = chat.conversation;
  if (agent === undefined) {
    const message = `${name} needs an agent; start the chat with rkat chat --agent NAME`;
    throw new RuntimeError("INVALID_PARAMS", message);
  }
  await command.run(chat, agent);
  return true;
}

/** The commands and what they do. */
export function agentCommandRows(): readonly (readonly [name: string, meaning: string])[] {
  return Object.entries(AGENT_COMMANDS).map(([name, { meaning }]) => [name, meaning]);
}
