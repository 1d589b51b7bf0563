import type { Command } from "commander";
import { RuntimeError } from "../../../contract/error.ts";
import type { SubAgent } from "../../../ports/sub-agent.ts";
import { withGeneral } from "../../../service/sub-agent-settings.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { jsonFlag } from "../flags.ts";
import { describeHelp, holdCommands } from "../help.ts";
import { alignColumns, createPaint, grouped, oneLine, writeJson } from "../io.ts";
import { readConfiguration } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";

interface Flags {
  readonly json?: boolean;
}

/** Declares `rkat sub-agent`. */
export function addSubAgentCommand(program: Command, invocation: Invocation): void {
  const parent = holdCommands(program.command("sub-agent").alias("sub-agents"))
    .summary("list and show whom a model can hand tasks to")
    .description("Shows the sub-agents that sessions of this folder can hand tasks to.");
  const list = parent
    .command("list")
    .summary("list sub-agents")
    .description("Lists the sub-agents of this folder and of yours, with what each is for.")
    .addOption(jsonFlag())
    .action((flags: Flags) => listAgents(invocation, flags));
  describeHelp(list, {
    examples: [
      ["rkat sub-agent list", "whom there is, and what for"],
      ["rkat sub-agent list --json | jq -r '.sub_agents[].name'", "for scripts"],
    ],
  });
  const show = parent
    .command("show")
    .summary("show a sub-agent with its prompt")
    .description("Shows a sub-agent: what it is for, what it may use, and its prompt.")
    .argument("<sub-agent>")
    .usage("NAME [options]")
    .addOption(jsonFlag())
    .action((name: string, flags: Flags) => showAgent(invocation, name, flags));
  describeHelp(show, { examples: [["rkat sub-agent show code-reviewer", "as its model is told"]] });
  describeHelp(parent, {
    examples: [["rkat sub-agent list", "whom there is, and what for"]],
    notes: [["A sub-agent is made by", ".rkat/agents/NAME.md, or [agents.NAME] of rkat.toml; see docs/sub-agents.md"]],
  });
}

/** Whom sessions of this place can hand tasks to, and by what rules. */
export async function agentsHere(invocation: Invocation) {
  const loaded = await readConfiguration(invocation);
  return { agents: withGeneral(await invocation.parts.subAgentsOf(loaded)), sub_agents: loaded.config.sub_agents };
}

const DESCRIPTION_CHARS_MAX = 80;

async function listAgents(invocation: Invocation, { json }: Flags): Promise<void> {
  const { io } = invocation;
  const { agents, sub_agents } = await agentsHere(invocation);
  if (json) return writeJson(io, { ...sub_agents, sub_agents: agents.map(told) });
  const { dim } = createPaint(io.stdout, io.env);
  const rows = agents.map(({ name, model = "", description }) => [
    name,
    model === "" ? "" : oneLine(model, DESCRIPTION_CHARS_MAX),
    oneLine(description, DESCRIPTION_CHARS_MAX),
  ]);
  const note = sub_agents.enabled
    ? "Sessions have the tool agent, unless they say otherwise."
    : "Sessions have the tool agent only where they ask for it: sub_agents.enabled is false.";
  io.stdout.write(`${alignColumns([["NAME", "MODEL", "WHAT FOR"], ...rows]).join("\n")}\n`);
  io.stdout.write(`${dim(note)}\n`);
}

async function showAgent(invocation: Invocation, name: string, { json }: Flags): Promise<void> {
  const { io } = invocation;
  const { agents } = await agentsHere(invocation);
  const agent = agents.find((one) => one.name === name);
  if (agent === undefined) {
    throw new RuntimeError("INVALID_PARAMS", `there is no sub-agent ${name}; rkat sub-agent list shows them`);
  }
  if (json) return writeJson(io, told(agent));
  const { prompt, tools, from: _place, ...facts } = told(agent);
  const words = (value: unknown): string => (typeof value === "number" ? grouped(value) : String(value));
  const rows = Object.entries({ ...facts, tools: tools?.join(", ") })
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => [key, words(value)]);
  io.stdout.write(`${alignColumns(rows).join("\n")}\n\n${withoutControls(prompt).trimEnd()}\n`);
}

/** By the names that its file has. */
function told({ limits, maxTurns: max_turns, ...agent }: SubAgent) {
  return { ...agent, ...limits, ...(max_turns === undefined ? {} : { max_turns }) };
}
